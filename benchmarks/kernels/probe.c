/* What this processor can do at most: bytes read a second, float32 multiply-adds a second.
 *
 * Built for this very machine, so vectors are as wide as it has them. Each function is one thread's work.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __AVX512F__
#define WIDTH 64
#else
#define WIDTH 32
#endif
#define AHEAD 2048 /* bytes, the prefetch distance that was best of 0 to 4096 */

typedef uint64_t words __attribute__((vector_size(WIDTH)));
typedef float floats __attribute__((vector_size(WIDTH)));

/* Read num_bytes, a multiple of 8 * WIDTH, from aligned memory. The result keeps the compiler from leaving it out. */
uint64_t read_bytes(const char *memory, size_t num_bytes) {
    words a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};
    for (const char *at = memory; at < memory + num_bytes; at += 8 * WIDTH) {
        const words *line = (const words *)at;
        for (int i = 0; i < 8 * WIDTH; i += 64) __builtin_prefetch(at + AHEAD + i);
        a ^= line[0], b ^= line[1], c ^= line[2], d ^= line[3];
        e ^= line[4], f ^= line[5], g ^= line[6], h ^= line[7];
    }
    words sum = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

/* Ten independent chains: more than two units with a latency of four need. */
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define DECLARE(i) floats chain##i = start + i;
#define ADVANCE(i) chain##i = chain##i * factor + start;
#define ADD(i) +chain##i

/* Run so many rounds of ten multiply-adds on whole vectors. */
float multiply_add(size_t num_rounds, float seed) {
    floats start = {0}, factor = {0};
    start += seed, factor += seed;
    EACH(DECLARE)
    for (size_t round = 0; round < num_rounds; ++round) {
        EACH(ADVANCE)
    }
    floats sum = start EACH(ADD);
    return sum[0] + sum[1];
}

/* Floating-point operations in one round. */
size_t operations_in_a_round(void) { return 10 * 2 * (WIDTH / sizeof(float)); }
