// Number types that count their operators while they run: a second count of the same source, independent of clang.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

inline unsigned long long counted_by_function[1024];
inline int counted_function;
struct Entered {
    int outer;
    explicit Entered(int number) : outer(counted_function) { counted_function = number; }
    ~Entered() { counted_function = outer; }
};
inline void one() { ++counted_by_function[counted_function]; }
inline bool logic(bool value) { one(); return value; }
inline unsigned long long counted_in_all() { unsigned long long sum = 0; for (auto each : counted_by_function) sum += each; return sum; }
#define ENTER(number) Entered entered(number)
#define LOGIC(value) logic(bool(value))

template <class T> struct Number {
    T value;
    Number() = default;
    template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>> Number(U from) : value(T(from)) {}
    template <class U> Number(const Number<U> &from) : value(T(from.value)) {}
    template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>> explicit operator U() const { return U(value); }
    Number &operator++() { one(); ++value; return *this; }
    Number operator++(int) { one(); return Number(value++); }
    Number &operator--() { one(); --value; return *this; }
    Number operator--(int) { one(); return Number(value--); }
    Number operator-() const { one(); return Number(-value); }
    Number operator~() const { one(); return Number(~value); }
    bool operator!() const { one(); return !value; }
};
template <class T> struct Plain { using type = T; static T of(T value) { return value; } };
template <class T> struct Plain<Number<T>> { using type = T; static T of(Number<T> value) { return value.value; } };
template <class A, class B> constexpr bool is_number =
    (!std::is_arithmetic_v<A> || !std::is_arithmetic_v<B>) &&
    (std::is_arithmetic_v<A> || !std::is_same_v<typename Plain<A>::type, A>) &&
    (std::is_arithmetic_v<B> || !std::is_same_v<typename Plain<B>::type, B>);
#define BINARY(sign)                                                                                                     \
    template <class A, class B, class = std::enable_if_t<is_number<A, B>>> auto operator sign(A a, B b)                  \
    { one(); return Number<decltype(Plain<A>::of(a) sign Plain<B>::of(b))>(Plain<A>::of(a) sign Plain<B>::of(b)); }      \
    template <class T, class B, class = std::enable_if_t<is_number<Number<T>, B>>>                                       \
    Number<T> &operator sign##=(Number<T> &a, B b) { one(); a.value = T(a.value sign Plain<B>::of(b)); return a; }
#define COMPARE(sign)                                                                                                    \
    template <class A, class B, class = std::enable_if_t<is_number<A, B>>> bool operator sign(A a, B b)                  \
    { one(); return Plain<A>::of(a) sign Plain<B>::of(b); }
BINARY(+) BINARY(-) BINARY(*) BINARY(/) BINARY(%) BINARY(&) BINARY(|) BINARY(^) BINARY(<<) BINARY(>>)
COMPARE(<) COMPARE(<=) COMPARE(>) COMPARE(>=) COMPARE(==) COMPARE(!=)

template <class T> struct Pointer {
    T *at = nullptr;
    Pointer() = default;
    Pointer(T *from) : at(from) {}
    T &operator*() const { return *at; }
    template <class I> T &operator[](I index) const { one(); return at[long(Plain<I>::of(index))]; }
    Pointer &operator++() { one(); ++at; return *this; }
    Pointer operator++(int) { one(); return Pointer(at++); }
    template <class I> Pointer operator+(I by) const { one(); return Pointer(at + long(Plain<I>::of(by))); }
    Number<long> operator-(Pointer other) const { one(); return Number<long>(at - other.at); }
    bool operator<(Pointer other) const { one(); return at < other.at; }
    bool operator==(Pointer other) const { one(); return at == other.at; }
    bool operator!=(Pointer other) const { one(); return at != other.at; }
};
template <class T, int N> struct Array {
    T items[N];
    template <class I> T &operator[](I index) { one(); return items[long(Plain<I>::of(index))]; }
};
using Integer = Number<long>;
using Unsigned = Number<unsigned long>;
using Byte = Number<unsigned char>;
using Flag = Number<bool>;
template <class T> T plain(Number<T> number) { return number.value; }
template <class T> T *raw(Pointer<T> pointer) { return pointer.at; }
