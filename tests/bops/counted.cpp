// Functions counted by hand: total operations of their own text, and last comparisons, in one run of main.
#include <cstring>
#include <stdexcept>
#include <vector>

static int sink;
constexpr int three = 1 + 2;
const double pi2 = 3.0 * 2;

struct Money {
    long cents;
    // Money::operator+ 4 0
    Money operator+(const Money &other) const { return Money{cents + other.cents}; }
    // Money::operator< 3 0
    bool operator<(const Money &other) const { return cents < other.cents; }
    // Money::operator[] 2 0
    long operator[](int i) const { return cents * i; }
    // Money::operator++ 1 0
    Money &operator++() { cents += 1; return *this; }
};

template <class T> struct Row {
    T values[4];
    // Row::sum 27 3
    T sum() const { T s = 0; for (int i = 0; i < 2; i++) s += values[i]; return s; }
};

class Counter {
  public:
    // Counter::Counter 4 0
    explicit Counter(int n) : first(n + 1), second(n * 2) {}
    // Counter::~Counter 2 0
    ~Counter() { sink -= 1; }
    // Counter::next 2 0
    virtual int next() { return first + second; }
    int first, second;
};

struct Doubled : Counter {
    using Counter::Counter;
    // Doubled::next 1 0
    int next() override { return first * 2; }
};

// total 4 0
template <class T> T total(T a, T b) { return a + b; }
// largest 7 0
template <class T> T largest(T a, T b) { if (a > b) return a - 0 * b; return b; }
// power 6 0
template <int N> int power(int a) { if constexpr (N > 1) return a * power<N - 1>(a) + three - N; else return a; }
// count_of 0 0
template <class... T> int count_of(T...) { return sizeof...(T); }

// overloaded 1 0
static void overloaded() { Money a{1}, b{2}; Money c = a + b + a + b + a; sink = int(c[2]) + int(b[1]); ++c; sink = a < b; sink = a < b; sink = b < a; }
// instantiated 0 0
static void instantiated() { sink = total(1, 2); sink = int(total(1.0, 2.0)); sink = total(2, 3); sink = int(total(3L, 3L)); }
// compared 0 0
static void compared() { sink = largest(1, 2); sink = largest(3, 2); sink = int(largest(3.0f, 2.0f)); }
// rows 0 0
static void rows() { Row<int> a{{1, 2}}; Row<double> b{{1, 2}}; Row<long> c{{1, 2}}; sink = a.sum(); sink = int(b.sum() ); sink = int(c.sum()); }
// lambda 7 0
static void lambda(int n) { auto twice = [](int a) { return a * 2; }; sink = twice(3) + twice(4) + twice(n + 1) - 0 * 1 ? 1 : 0; }
// lambda_with_capture 11 1
static void lambda_with_capture(int n) { int s = 0; auto put = [&s, k = n + 1](int a) { s += a * k; }; for (int i = 0; i < 2; i++) put(i); put(2); sink = s; }
// generic_lambda 2 0
static void generic_lambda() { auto square = [](auto a) { return a * a; }; sink = square(2); sink = int(square(2.5)); }
// lambda_in_lambda 2 0
static void lambda_in_lambda(int n) { auto outer = [n] { auto inner = [n] { return n * 3; }; return inner() + 1; }; sink = outer(); }
// range_over_array 10 1
static void range_over_array() { int a[3] = {1, 2, 3}; int s = 0; for (int x : a) s += x; sink = s; }
// range_left_early 10 0
static void range_left_early() { int a[] = {1, 2, 3, 4}; for (int x : a) { if (x * 1 == 2) break; sink = x + 1 - 1; } }
// range_over_vector 7 1
static void range_over_vector() { std::vector<int> a{1, 2}; for (int &x : a) x += 1; }
// nested_ranges 15 3
static void nested_ranges() { int a[2][2] = {{1, 2}, {3, 4}}; for (auto &row : a) for (int x : row) sink = x; for (int i = 0; false; i++) sink = i; }
// references 2 0
static void references(int &a) { int &b = a; b += 1; int *p = &b; *p = a + 1; }
// new_and_delete 3 0
static void new_and_delete(int n) { int *a = new int[n + 1]; a[0] = 1; sink = a[0]; delete[] a; }
// alternatives 5 0
static void alternatives(int a) { sink = a > 0 and a < 9; sink = not a; sink = a bitand 1; }
// casts 1 0
static void casts(double a) { sink = static_cast<int>(a) + 1; const char *c = reinterpret_cast<const char *>(&sink); (void)c; }
// defaults 2 0
static int defaults(int a = 2 + 3) { return a + 1; }
// strings 1 0
static void strings(const char *a) { sink = std::strcmp(a, "hello") + strcmp("help", "hello"); }
// caught 3 0
static void caught(int a) { try { if (a + 1 > 2) throw std::runtime_error("no"); } catch (const std::exception &) { sink = a * 2; } }
// initialized_if 2 0
static void initialized_if(int a) { if (int b = a + 1; b > 2) sink = b; }
// bindings 1 0
static void bindings() { Money m{3}; auto [cents] = m; sink = int(cents) + 1; }
namespace inner {
// in_namespace 1 0
static int in_namespace(int a) { return a * a; }
}
// local_class 0 0
static void local_class() { struct Local { int half(int a) { return a / 2; } } local; sink = local.half(4); }
// half 1 0

int main()
{
    overloaded(); instantiated(); compared(); rows(); lambda(2); lambda_with_capture(3); generic_lambda();
    lambda_in_lambda(2); range_over_array(); range_left_early(); range_over_vector(); nested_ranges(); references(sink);
    new_and_delete(3); alternatives(3); casts(2.5); defaults(); defaults(3); strings("hello"); caught(3); initialized_if(3);
    bindings(); inner::in_namespace(3); local_class();
    Counter c(2); Doubled d(3); Counter *p = &d;
    sink = c.next(); sink = p->next(); sink = c.next(); sink = power<3>(2); sink = count_of(1, 2.0);
    return pi2 > 6 ? 1 : 0;
}
