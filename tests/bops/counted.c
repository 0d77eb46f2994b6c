/* Functions counted by hand: total operations of their own text, and last comparisons, in one run of main. */
#include <stdlib.h>
#include <string.h>
#define SQUARE(x) ((x) * (x))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define NEAREST(a, b, c) LARGER(LARGER(a, b), c)
#define TWICE(body) body; body
#define EACH(i, n) for (int i = 0; i < (n); i++)
enum { SIZE = 4, DOUBLED = SIZE * 2 };
typedef int lanes __attribute__((vector_size(16)));
typedef double pair __attribute__((vector_size(16)));
struct point { int x, y; };
static int sink, limit = 3 + 4, table[SIZE * 2] = { 1 + 1, 2 };

// add 1 0
static void add(int a, int b) { sink = a + b; }
// arithmetic 5 0
static void arithmetic(int a, int b) { sink = a + b - a * b / 3 % 2; }
// bitwise 6 0
static void bitwise(unsigned a, unsigned b) { sink = (a & b) | (a ^ b) | (~a << 2); }
// shifts 2 0
static void shifts(int a) { a <<= 1; a >>= 2; sink = a; }
// compare 3 0
static void compare(int a, int b) { sink = a < b; sink = a == b; sink = a >= b; }
// floating 3 0
static void floating(double a) { sink = a * 2.0 + a / 3.0; }
// conversions 0 0
static void conversions(double a) { long b = (long)a; float c = b; sink = (int)c; }
// declarations 0 0
static void declarations(void) { int a = 3, *b = &a; sink = *b; }
// negations 2 0
static void negations(int a) { sink = -a; sink = -3; sink = !a; sink = +a; }
// literals 0 0
static void literals(void) { sink = 2 * 3 + 4; sink = -(1 << 4); sink = DOUBLED * 2; }
// half_literal 1 0
static void half_literal(int a) { sink = 2 * 3 + a; }
// compound 10 0
static void compound(int a) { a += 1; a -= 2; a *= 3; a /= 2; a %= 7; a &= 15; a |= 1; a ^= 3; a <<= 1; a >>= 1; sink = a; }
// steps 4 0
static void steps(int a) { a++; ++a; a--; --a; sink = a; }
// subscript 1 0
static void subscript(int *a) { sink = a[1]; }
// subscript_in_two 2 0
static void subscript_in_two(int a[2][2]) { sink = a[1][1]; }
// subscript_in_three 3 0
static void subscript_in_three(void) { int cube[2][3][4]; cube[1][2][3] = 5; sink = sizeof cube; }
// subscript_of_steps 4 0
static void subscript_of_steps(int *a, int i) { a[i++] = a[i + 0]; }
// address_of_element 1 0
static void address_of_element(int *a) { int *b = &a[1]; sink = *b; }
// dereference 0 0
static void dereference(int *a) { *a = 3; sink = *a; }
// pointer_arithmetic 5 0
static void pointer_arithmetic(int *a) { int *b = a + 1; sink = *b++; sink = b - a; sink = b > a; b -= 1; }
// members 1 0
static void members(struct point *p) { p->x = p->y; (*p).x = p->y + 1; }
// sizes 0 0
static void sizes(int a) { sink = sizeof(a + 1) + sizeof(int[2]); sink = sizeof table / sizeof table[0]; }
// ternary 2 0
static void ternary(int a) { sink = a > 0 ? a + 1 : a - 1 - 1; }
// ternary_in_ternary 4 0
static void ternary_in_ternary(int a) { sink = a < 0 ? a - 9 : a < 5 ? a * a + 1 : a / 2; }
// short_circuit_and 2 0
static void short_circuit_and(int a) { sink = a > 5 && a * a > 2; }
// short_circuit_or 2 0
static void short_circuit_or(int a) { sink = a < 5 || a * a > 2; }
// full_and 4 0
static void full_and(int a) { sink = a < 5 && a * a > 2; }
// nested_logic 6 0
static void nested_logic(int a) { sink = (a > 5 && a < 9) || (a == 2 && a != 3); }
// comma 2 0
static void comma(int a) { sink = (a++, a + 1); }
// branch 3 0
static void branch(int a) { if (a > 1) sink = a + 1; else sink = a - 1 - 1; if (a) sink = a; else sink = -a; sink = a * 2; }
// else_if 4 0
static void else_if(int a) { if (a == 0) sink = 1; else if (a == 2) sink = a * a * a; else sink = a + a; }
// loop 301 1
static void loop(void) { long a[100]; int j; for (j = 0; j < 100; j++) a[j] = 0; }
// while_loop 11 1
static void while_loop(int a) { int n = 0; while (n < 5) n++; sink = a; }
// while_without_comparison 6 0
static void while_without_comparison(void) { int n = 5; while (n--) ; sink = n; }
// do_loop 6 0
static void do_loop(void) { int n = 0; do n++; while (n < 3); sink = n; }
// endless 8 0
static void endless(void) { int n = 0; for (;;) { if (n == 3) break; n++; } while (1) { n--; break; } }
// left_early 15 0
static void left_early(int *a) { for (int i = 0; i < 8; i++) { if (a[i] == 3) break; sink = i; } }
// returned_early 15 0
static void returned_early(int *a) { for (int i = 0; i < 8; i++) if (a[i] == 3) return; sink = a[0] + 1; }
// continued 15 1
static void continued(void) { for (int i = 0; i < 4; i++) { if (i % 2) continue; sink = i + i; } }
// nested_loops 28 4
static void nested_loops(void) { for (int i = 0; i < 3; i++) for (int j = 0; j < 2; j++) sink = i * j; }
// loop_with_and 18 1
static void loop_with_and(void) { int i, s = 0; for (i = 0; i < 9 && s < 6; i++) s += 2; sink = i; }
// switched 4 0
static void switched(int a) { switch (a + 1) { case 1: sink = a - 1; break; case 3: sink = a * a; case 4: sink = a + 1; a++; break; default: a--; } }
// switch_in_loop 18 1
static void switch_in_loop(void) { for (int i = 0; i < 4; i++) switch (i % 3) { case 0: sink = i + 1; break; case 1: sink = i * i * i + 1; } }
// jumped 9 0
static void jumped(void) { int n = 0; again: n++; if (n < 3) goto again; if (n > 0) goto end; sink = n + 1; end: sink = n * n - 1; }
// square_in_macro 4 0
static void square_in_macro(int a) { sink = SQUARE(a + 1) - SQUARE(2) ? 1 : 0; }
// macro_in_macro 5 0
static void macro_in_macro(int a, int b) { sink = NEAREST(a + 1, b, 3); }
// statement_in_macro 4 0
static void statement_in_macro(int a) { TWICE(a = a * 2 + 1); sink = a; }
// loop_in_macro 11 2
static void loop_in_macro(void) { EACH(i, SIZE - 1) { sink = i + 1; } EACH(j, 0) sink = j; }
// branch_in_macro_argument 5 0
static void branch_in_macro_argument(int a) { sink = SQUARE(a > 1 ? a + 1 : 0); }
// recursion 21 0
static int recursion(int n) { return n < 2 ? n : recursion(n - 1) + recursion(n - 2); }
// mutual 4 0
static int odd(int n);
static int mutual(int n) { return n == 0 ? 1 : odd(n - 1); }
static int odd(int n) { return n == 0 ? 0 : mutual(n - 1); }
// through_pointer 2 0
static int through_pointer(int a) { return a * a; }
// never_called 0 0
static void never_called(int a) { sink = a + a; }
// vector_add 9 0
static void vector_add(lanes a, lanes b) { a = a + b; a *= b; sink = ((int *)&a) != 0 ? 1 : 1; }
// vector_compare 4 0
static void vector_compare(lanes a, lanes b) { lanes c = a < b; (void)c; }
// vector_of_doubles 4 0
static void vector_of_doubles(pair a) { a = a * a; a = -a; }
// vector_element 1 0
static void vector_element(lanes a) { sink = a[2]; }
// variable_array 3 0
static void variable_array(int n) { int a[n * 2]; a[n - 1] = 0; sink = sizeof a != 0 ? 1 : 1; }
// statics 2 0
static void statics(int n) { static int kept = 2 + 3, *where = &table[1]; sink = kept + n; (void)where; }
// statement_expression 2 0
static void statement_expression(int n) { sink = ({ int m = n * 2; m + 1; }); }
// initializers 4 0
static void initializers(int n) { int a[] = { n + 1, n * 2, 3 }; struct point p = { .x = n - 1, .y = 2 }; sink = a != 0 ? p.x : 0; }
// designated 9 0
static void designated(int n) { int a[8] = { [1 + 1] = n + 1, [4 ... 6] = n * 2 }; struct { int b[3]; } q = { .b = { [2] = n - 1 } }, r = { .b[1] = n + 4 }; sink = a[2] + q.b[2] + r.b[1]; }
// assigned_in_condition 8 1
static void assigned_in_condition(void) { int n = 0, m; while ((m = n + n) < 4) n++; sink = m; }
// sorted_by_library 2 0
static int sorted_by_library(const void *a, const void *b) { return *(const int *)a > *(const int *)b ? 1 : *(const int *)a < *(const int *)b ? -1 : 0; }

int main(void)
{
    int row[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, square[2][2] = { { 1, 2 }, { 3, 4 } }, two[] = { 1, 2 };
    struct point p = { 1, 2 };
    lanes v = { 1, 2, 3, 4 };
    pair w = { 1, 2 };
    int (*pointer)(int) = through_pointer;
    add(1, 2); arithmetic(3, 4); bitwise(5, 6); shifts(3); compare(1, 2); floating(1.5); conversions(2.5); declarations();
    negations(3); literals(); half_literal(2); compound(9); steps(3); subscript(row); subscript_in_two(square);
    subscript_in_three(); subscript_of_steps(row, 0); address_of_element(row); dereference(row); pointer_arithmetic(row);
    row[0] = 0; members(&p); sizes(3); ternary(3); ternary_in_ternary(3); short_circuit_and(3); short_circuit_or(3);
    full_and(3); nested_logic(2); comma(3); branch(2); else_if(2); loop(); while_loop(3); while_without_comparison();
    do_loop(); endless(); left_early(row); returned_early(row); continued(); nested_loops(); loop_with_and();
    switched(2); switch_in_loop(); jumped(); square_in_macro(3); macro_in_macro(3, 9); statement_in_macro(3);
    loop_in_macro(); branch_in_macro_argument(3); recursion(4); mutual(3); pointer(3); pointer(4); vector_add(v, v);
    vector_compare(v, v); vector_of_doubles(w); vector_element(v); variable_array(3); statics(2); statics(3) ;
    statement_expression(3); initializers(3); designated(3); assigned_in_condition(); qsort(two, 2, sizeof two[0], sorted_by_library);
    if (sink == 12345) never_called(sink);
    return limit != 7;
}
