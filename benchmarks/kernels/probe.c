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
#define STRIDE (8 * WIDTH)
#define AHEAD 2048 /* bytes; no distance from 0 to 4096 was faster */

typedef uint64_t words __attribute__((vector_size(WIDTH)));
typedef float floats __attribute__((vector_size(WIDTH)));

/* The bytes that are read in one go: sizes have to be multiples of it, addresses of 64. */
size_t stride(void) { return STRIDE; }

/* Read the memory so many times. The result keeps the compiler from leaving it out. */
uint64_t read_bytes(const char *memory, size_t num_bytes, size_t times) {
    words a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};
    for (size_t turn = 0; turn < times; ++turn) {
        for (const char *at = memory; at < memory + num_bytes; at += STRIDE) {
            const words *line = (const words *)at;
            for (int i = 0; i < STRIDE; i += 64) __builtin_prefetch(at + AHEAD + i);
            a ^= line[0], b ^= line[1], c ^= line[2], d ^= line[3];
            e ^= line[4], f ^= line[5], g ^= line[6], h ^= line[7];
        }
        a += turn; /* or two turns would cancel out */
    }
    words sum = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

/* Ten independent chains: more than two units with a latency of four need. */
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define DECLARE(i) floats chain##i = start + i;
#define ADVANCE(i) chain##i = chain##i * factor + start;
#define ADD(i) +chain##i

/* Floating-point operations of one round: each chain goes on by one multiply-add of whole vectors. */
size_t operations_in_a_round(void) { return 10 * 2 * (WIDTH / sizeof(float)); }

/* Run so many rounds. */
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
