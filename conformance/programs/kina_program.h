/* SPDX-License-Identifier: Apache-2.0 */
/* kina_program.h: how a compiled program describes itself, so that a loader finds its functions and can refuse it
 * cleanly.
 *
 * A program is a shared object that
 *   - is linked against libkina.so.1 with the run path $ORIGIN, so that a loader can put the runtime of its choice
 * beside it;
 *   - exports one data symbol, `kina_program`, of type KinaProgram, and may export its functions under their own names
 * as well;
 *   - does no work when it is loaded.
 *
 * A loader opens the file, checks `magic`, `struct_size` and `abi_version` in this order and reads nothing else before;
 * it refuses (VERSION) a program whose ABI has another major than the runtime's or a newer minor, and proves by
 * `dladdr` that the program's runtime is the one it means.
 *
 * Everything here grows at the end only. Like the runtime's header this one is plain C99.
 */
#ifndef KINA_PROGRAM_H
#define KINA_PROGRAM_H

#include <kina_runtime.h>

#define KINA_PROGRAM_MAGIC 0x474F5250u /* "PROG" in memory */

/* What a compiled function may need of the runtime; a program built for a newer header says so by itself. */
#ifndef KINA_PROGRAM_ABI_VERSION
#define KINA_PROGRAM_ABI_VERSION KINA_ABI_VERSION
#endif

/**
 * The one calling convention of compiled functions: `outputs` is an array of the function's output_count tensors,
 * `inputs` one of input_count pointers, borrowed.
 *
 * An empty output is produced, a non-empty one is written into, as the runtime's out convention says. The result is the
 * status of the first runtime call that failed, whose error record stands; every temporary of the function has been
 * freed then, and empty outputs are empty.
 */
typedef KinaStatus (*KinaProgramCall)(KinaTensor* outputs, const KinaTensor* const* inputs);

typedef struct KinaProgramFunction { /* 24 */
  const char* name;                  /*  0  a C identifier */
  KinaProgramCall call;              /*  8 */
  int32_t output_count;              /* 16 */
  int32_t input_count;               /* 20  the arity */
} KinaProgramFunction;

typedef struct KinaProgram {            /* 32 */
  uint32_t magic;                       /*  0  KINA_PROGRAM_MAGIC */
  uint32_t struct_size;                 /*  4  sizeof(KinaProgram) of the compiler */
  uint32_t abi_version;                 /*  8  the least runtime ABI that the program needs: major << 16 | minor */
  uint32_t function_count;              /* 12 */
  const char* name;                     /* 16  for messages */
  const KinaProgramFunction* functions; /* 24  function_count of them */
} KinaProgram;

typedef char KinaProgramFunctionIs24Bytes[sizeof(KinaProgramFunction) == 24 ? 1 : -1];
typedef char KinaProgramIs32Bytes[sizeof(KinaProgram) == 32 ? 1 : -1];

/* The descriptor of a program whose functions stand in the array `functions`. */
#define KINA_PROGRAM_DEFINE(program_name, functions)                                                                  \
  __attribute__((visibility("default"))) extern const KinaProgram kina_program;                                       \
  const KinaProgram kina_program = {KINA_PROGRAM_MAGIC,       (uint32_t)sizeof(KinaProgram),                          \
                                    KINA_PROGRAM_ABI_VERSION, (uint32_t)(sizeof(functions) / sizeof((functions)[0])), \
                                    (program_name),           (functions)}

#endif /* KINA_PROGRAM_H */
