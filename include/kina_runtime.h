/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kina_runtime.h: the C ABI of compiled tensor programs, version 1.0-rc.
 *
 * A compiler emits calls to the functions of this file. A program compiled against it runs, unchanged, on every later
 * 1.x library and on every other implementation of the contract. This file is the manual; the numbered clauses that it
 * cites in brackets, like [KINA-STATUS-4], stand in spec/, one file per chapter, in the order of this file.
 *
 * `gpu_` in a name marks what the compiler does not inline. Such a function runs where its operands live: on the host
 * when they are host tensors, on an accelerator when they are there.
 *
 * Ten laws hold for every function; each chapter says only what is special.
 *
 *  1 Status      A function that can fail returns KinaStatus; every value but 0, now and later, is a failure. Results
 *                come through out-pointers, which come first.
 *  2 Failure     On any failure out-structs are as before, no ownership has moved, nothing is leaked, the library stays
 *                usable, and the thread has an error record. Until resources, device or data refuse (tier 5), no byte
 *                of any buffer has changed.
 *  3 Precedence  Of several broken rules the lowest tier answers: (1) NULL, struct_size, magic, empty input;
 *                (2) handles; (3) values and state; (4) not offered; (5) resources, device, data.
 *  4 Silence     No exception, abort, exit, signal handler or output, unless logging is asked for.
 *  5 Arithmetic  Counts, spans, sizes and offsets are 64-bit and checked for overflow.
 *  6 Handles     64-bit names, never addresses, never used twice in a process. A stale, foreign or wrong one is
 *                INVALID_HANDLE. Undefined: only a pointer that does not point where its type says, and law 9's race.
 *  7 Ownership   The `owner` tag says it for every parameter. Releases fail only in tiers 1 to 3.
 *  8 Order       Work goes to one stream chosen by one rule (chapter stream); uses of a storage are ordered across
 *                streams by the library; bytes are reused after their last use.
 *  9 Threads     Any function may be called from any thread. Reading calls on one tensor may overlap; a call that ends
 *                a tensor or fills a struct must not overlap another call on it.
 * 10 Life cycle  Calls are safe from atexit, from threads that outlive main, after driver shutdown, beside a second
 *                copy of the library, and in a forked child, where host tensors go on working.
 *
 * Tag lines end the comment of every function: the half of the contract that programs read. All are mandatory.
 *
 *   since    the minor version that brought the function
 *   feature  the KINA_FEATURE_* that it needs; without it the function is UNSUPPORTED [KINA-VERSION-5]
 *   null     the pointers that may be NULL, each with its condition; any other NULL is INVALID_ARGUMENT
 *   owner    what becomes of each pointer and handle: `produce` is written by the call, `borrow` is read during the
 *            call, `keep` is referred to after it, `consume` is given away by a success
 *   errors   every status that it can answer, with all its clauses; `injected` marks what only a fault can produce
 *   stream   `host` touches no stream, `enqueues` returns before the work has run, `synchronises` returns after it;
 *            `host/enqueues` is the one or the other, by the device
 *   alloc    `handle` a slot of a table, `host` other host memory of the library, `resource` bytes through a memory
 *            resource, `device` streams and events; each can be what OUT_OF_MEMORY means
 *   thread   `calling` acts on state of the calling thread, `any` does not
 *
 * Growth. 1.x adds functions, enumerators at the end of their ranges, feature and flag bits, and fields behind
 * struct_size. It changes and removes nothing. Values from 0x40000000 and flag bits 24 to 30 belong to vendors; bit 31
 * of a flag word is never used. Option structs start with struct_size; NULL, or all-zero behind struct_size, means the
 * defaults, for ever [KINA-VERSION-9 to 16]. In output structs the caller sets struct_size, the library fills the rest.
 *
 * Enumerations travel as int32_t, booleans are int32_t 0 or 1, sizes are uint64_t bytes, every array has its count.
 * Strings are NUL-terminated UTF-8.
 */
#ifndef KINA_RUNTIME_H
#define KINA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h>

/* The layouts below are frozen for 64-bit little-endian targets; 1.x has no others. */
#if !defined(_WIN64) && (!defined(__SIZEOF_POINTER__) || __SIZEOF_POINTER__ != 8)
#error "kina_runtime.h 1.x is for 64-bit targets"
#endif
#if !defined(_WIN64) && (!defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
#error "kina_runtime.h 1.x is for little-endian targets"
#endif
#if DLPACK_MAJOR_VERSION != 1
#error "kina_runtime.h 1.x needs dlpack.h of major version 1"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Marks what a library exports: visible in ELF and Mach-O while everything else is hidden. */
#if defined(__GNUC__) || defined(__clang__)
#define KINA_API __attribute__((visibility("default")))
#else
#define KINA_API
#endif

/* ==== types ====
 *
 * Every handle, number and struct, by chapter. All values and layouts are frozen (ci/freeze.c asserts them, and
 * runtime_field_layout reports what a loaded binary has). Offsets stand at the left of each field's comment.
 */

/* ---- handles: pointers to types that are never completed; a value is a name, never an address; NULL: none ---- */

typedef struct KinaStreamHandle   *KinaStream;   /* an ordered queue of work on one device; chapter stream */
typedef struct KinaScopeHandle    *KinaScope;    /* the token of one push, for runtime_scope_pop; of one thread */
typedef struct KinaResourceHandle *KinaResource; /* a source of memory on one device; chapter resource */
typedef struct KinaWeakHandle     *KinaWeak;     /* names a storage without keeping it; chapter storage */
typedef struct KinaPeerHandle     *KinaPeer;     /* pins a storage for use by another device; chapter storage */

/* ---- numbers with names: the constants below each have one of these types ---- */

typedef uint32_t KinaDtype;        /* KINA_DTYPE_*: the image of a DLDataType, code | bits << 8 | lanes << 16 */
typedef int32_t  KinaStatus;       /* KINA_SUCCESS, KINA_ERROR_*: how a call ended */
typedef int32_t  KinaCategory;     /* KINA_CATEGORY_*: who is to blame */
typedef int32_t  KinaNativeDomain; /* KINA_NATIVE_*: whose number native_code is */
typedef int32_t  KinaFeature;      /* KINA_FEATURE_*: what a build offers */
typedef int32_t  KinaLogLevel;     /* KINA_LOG_OFF … KINA_LOG_TRACE */
typedef int32_t  KinaAccess;       /* KINA_ACCESS_*: what foreign work does with a tensor */
typedef int32_t  KinaOverlap;      /* KINA_OVERLAP_*: how two tensors share bytes */
typedef int32_t  KinaUnaryOp;      /* KINA_UNARY_*: 0x100 … */
typedef int32_t  KinaBinaryOp;     /* KINA_BINARY_*: 0x200 …, comparisons 0x240 … */
typedef int32_t  KinaReduceOp;     /* KINA_REDUCE_*: 0x300 …, or'ed with KINA_REDUCE_KEEPDIMS */
typedef int32_t  KinaCompute;      /* KINA_COMPUTE_*: arithmetic of a product */
typedef int32_t  KinaGrowth;       /* KINA_GROWTH_*: how a pool grows */
typedef int32_t  KinaLogFormat;    /* KINA_LOG_FORMAT_*: of a logging resource's file */
typedef int32_t  KinaLogEvent;     /* KINA_LOG_EVENT_*: what a row of a logging resource tells */

/* ---- version ---- */

#define KINA_ABI_VERSION   0x00010000u /* major << 16 | minor of this header */
#define KINA_STRUCT_LIMIT  4096u       /* struct_size above this, or no multiple of 8: VERSION, the tail is not read */

enum {
    KINA_FEATURE_CORE = 1,   /* everything that the tag `feature: core` marks; every runtime has it */
    KINA_FEATURE_DLPACK = 2, /* export and import of DLPack structs */
    KINA_FEATURE_CUDA = 3,   /* the build knows device types kDLCUDA, kDLCUDAHost and kDLCUDAManaged */
    KINA_FEATURE_SIM = 4,    /* the build knows simulated devices, device type kDLExtDev */
    KINA_FEATURE_PEER = 5,   /* peer handles: memory of one device named on another, or twice on its own */
    KINA_FEATURE_CAPTURE = 6,/* streams can be captured into graphs */
    KINA_FEATURE_FLOAT8 = 7  /* casts from and to the two 8-bit float dtypes */
};

/* ---- status ---- */

enum { /* category and tier; the whole table is spec/tables/statuses.toml */
    KINA_SUCCESS = 0,
    KINA_ERROR_OUT_OF_MEMORY = 1,       /* resource, 5: a resource's bytes, host memory or handle values ran out */
    KINA_ERROR_DEVICE = 2,              /* device, 5: a driver call failed; the native fields say which and how */
    KINA_ERROR_INVALID_SHAPE = 3,       /* caller, 3: rank, extents, axis, permutation, bounds, count overflow */
    KINA_ERROR_DLPACK = 4,              /* caller, 3: a malformed DLPack struct */
    KINA_ERROR_KERNEL_LAUNCH = 5,       /* device, 5: a kernel could not be started */
    KINA_ERROR_INTERNAL = 6,            /* internal, 5: a bug of the library; in no `errors` tag */
    KINA_ERROR_INVALID_ARGUMENT = 7,    /* caller, 1 for NULL and empty inputs, 3 for values */
    KINA_ERROR_INVALID_HANDLE = 8,      /* caller, 1 for a wrong magic, 2 for a handle that names nothing of its type */
    KINA_ERROR_INVALID_DTYPE = 9,       /* caller, 3: operands' dtypes differ, or are not the one required */
    KINA_ERROR_DEVICE_MISMATCH = 10,    /* caller, 3: operands live on different devices */
    KINA_ERROR_UNSUPPORTED = 11,        /* unsupported, 4: what a later 1.x, or another build, could offer */
    KINA_ERROR_OVERLAP = 12,            /* caller, 3: out shares bytes with an input, not exactly */
    KINA_ERROR_READ_ONLY = 13,          /* caller, 3: a write into a read-only tensor */
    KINA_ERROR_FAILED_INPUT = 14,       /* device, 5: an input carries a failure */
    KINA_ERROR_INDEX_OUT_OF_RANGE = 15, /* caller, 5: an index found in the data */
    KINA_ERROR_BUSY = 16,               /* caller, 3: the object is in use in a way that forbids this call */
    KINA_ERROR_VERSION = 17,            /* caller, 1: struct_size, a tail not zero, a DLPack major, a newer program */
    KINA_ERROR_DEVICE_LOST = 18,        /* device, 5: the device is lost for the rest of the process */
    KINA_ERROR_VENDOR_LIBRARY = 19      /* device, 5: cuBLAS or cuDNN refused, or is absent */
};
enum { /* KinaErrorInfo.category */
    KINA_CATEGORY_NONE = 0,        /* no failure */
    KINA_CATEGORY_CALLER = 1,      /* the program must change */
    KINA_CATEGORY_RESOURCE = 2,    /* the same call can succeed when memory is free */
    KINA_CATEGORY_DEVICE = 3,      /* the device, its driver, its libraries, or work that failed on it */
    KINA_CATEGORY_UNSUPPORTED = 4, /* not offered here */
    KINA_CATEGORY_INTERNAL = 5     /* the library must change */
};
enum { /* KinaErrorInfo.native_domain */
    KINA_NATIVE_NONE = 0,         /* nobody's */
    KINA_NATIVE_CUDA_RUNTIME = 1, /* a cudaError_t */
    KINA_NATIVE_CUDA_DRIVER = 2,  /* a CUresult */
    KINA_NATIVE_CUBLAS = 3,       /* a cublasStatus_t */
    KINA_NATIVE_CUDNN = 4         /* a cudnnStatus_t */
};
/* How much a message matters; each level includes those before it. Which messages there are, beside those of
 * KINA-STATUS-43 and KINA-DEVICE-19, is the library's choice. */
enum {
    KINA_LOG_OFF = 0,     /* nothing */
    KINA_LOG_ERROR = 1,   /* of what is lost */
    KINA_LOG_WARNING = 2, /* of what is odd and was made good */
    KINA_LOG_INFO = 3,    /* of the ordinary course */
    KINA_LOG_DEBUG = 4,   /* for finding faults: every failing call is logged here */
    KINA_LOG_TRACE = 5    /* finer still */
};

typedef struct KinaErrorInfo { /* 96; output struct. Strings: static, or valid until this thread's next failing call */
    uint32_t         struct_size;     /*  0 sizeof(KinaErrorInfo), set by the caller */
    KinaStatus       status;          /*  4 KINA_SUCCESS: there is no record, all else is zero and message "" */
    KinaCategory     category;        /*  8 follows from status */
    int32_t          retryable;       /* 12 boolean: the same call may succeed later; follows from status */
    int32_t          argument;        /* 16 position in the prototype from 1; 0: no single argument */
    KinaNativeDomain native_domain;   /* 20 whose number native_code is; KINA_NATIVE_NONE: nobody's */
    int64_t          native_code;     /* 24 what the driver or vendor library answered */
    uint64_t         failure;         /* 32 FAILED_INPUT: id of the failure that the input carries; else 0 */
    uint64_t         requested_bytes; /* 40 OUT_OF_MEMORY: the size asked for; else 0 */
    const char      *function;        /* 48 "runtime_gpu_matmul" */
    const char      *argument_name;   /* 56 "params.bias"; NULL: no single argument */
    const char      *clause;          /* 64 "KINA-MATMUL-4" */
    const char      *native_name;     /* 72 the constant's name; NULL: none */
    const char      *native_message;  /* 80 the driver's own words; NULL: none */
    const char      *message;         /* 88 one line for a human, never NULL */
} KinaErrorInfo;

/* Hears one log message; `message` is valid during the call. May be called by several threads at once. */
typedef void (*KinaLogCallback)(void *context, KinaLogLevel level, const char *message);

/* ---- device ---- */

typedef struct KinaDeviceInfo { /* 96; output struct */
    uint32_t    struct_size;              /*  0 sizeof(KinaDeviceInfo), set by the caller */
    int32_t     device_type;              /*  4 as asked */
    int32_t     device_id;                /*  8 as asked */
    int32_t     is_lost;                  /* 12 boolean: calls on it are DEVICE_LOST */
    const char *name;                     /* 16 never NULL, valid for the life of the process */
    uint64_t    total_bytes;              /* 24 memory of the device */
    uint64_t    free_bytes;               /* 32 of it free now; 0: unknown */
    int32_t     compute_capability_major; /* 40 0: the device has none */
    int32_t     compute_capability_minor; /* 44 */
    int32_t     multiprocessor_count;     /* 48 on the host: hardware threads */
    int32_t     warp_size;                /* 52 0: the device has none */
    int32_t     driver_version;           /* 56 CUDA's integer form, 12040 for 12.4; 0: none */
    int32_t     runtime_version;          /* 60 the same of the CUDA runtime */
    int32_t     has_memory_pools;         /* 64 boolean: the driver has stream-ordered pools */
    int32_t     has_unified_addressing;   /* 68 boolean: one address space with the host */
    int32_t     numa_node;                /* 72 -1: unknown */
    int32_t     reserved;                 /* 76 0 */
    uint8_t     uuid[16];                 /* 80 all 0: the device has none */
} KinaDeviceInfo;

/* ---- resource ---- */

enum {
    KINA_GROWTH_GEOMETRIC = 0, /* ever larger pieces, so that few are taken */
    KINA_GROWTH_FIXED = 1,     /* pieces of growth_bytes, or multiples where a request needs them */
    KINA_GROWTH_NONE = 2       /* initial_bytes and no more */
};
enum { KINA_LOG_FORMAT_TEXT = 0, KINA_LOG_FORMAT_JSON_LINES = 1 };
enum { KINA_LOG_EVENT_ALLOCATE = 1, KINA_LOG_EVENT_DEALLOCATE = 2 };
enum { /* KinaPoolParams.flags */
    KINA_POOL_OPPORTUNISTIC = 0x1, /* reuse may follow what happens to have finished; two runs may then differ */
    KINA_POOL_LAZY = 0x2           /* take nothing from upstream before the first allocation */
};
enum { KINA_CUDA_ASYNC_OPPORTUNISTIC = 0x1 }; /* KinaCudaAsyncParams.flags: reuse may follow what has finished */
enum { KINA_LOGGING_FRAMES = 0x1 };           /* KinaLoggingParams.flags: rows carry return addresses */

typedef struct KinaResourceInfo { /* 168; output struct */
    uint32_t     struct_size;      /*   0 sizeof(KinaResourceInfo), set by the caller */
    int32_t      device_type;      /*   4 where its memory is */
    int32_t      device_id;        /*   8 */
    int32_t      supports_streams; /*  12 boolean: it orders by stream itself */
    KinaResource upstream;         /*  16 borrowed handle; NULL at the base */
    const char  *name;             /*  24 "logging(pool(host))"; valid while the resource lives */
    uint64_t     alignment;        /*  32 of every block, in bytes */
    uint64_t     maximum_bytes;    /*  40 0: no limit of its own */
    uint64_t     live_bytes;       /*  48 allocated and not yet deallocated, as requested */
    uint64_t     peak_bytes;       /*  56 highest live_bytes; of a pool or logs that threads share, to 1 MiB for each */
    uint64_t     live_blocks;      /*  64 */
    uint64_t     reserved_bytes;   /*  72 taken from upstream and not given back */
    uint64_t     leaked_bytes;     /*  80 never given back: a device may still use them, or giving back failed */
    uint64_t     leaked_blocks;    /*  88 */
    uint64_t     metadata_bytes;   /*  96 host memory of the resource's own tables */
    uint64_t     allocations;      /* 104 successful ones */
    uint64_t     deallocations;    /* 112 */
    uint64_t     failures;         /* 120 allocations refused */
    uint64_t     upstream_calls;   /* 128 allocate and deallocate calls made on upstream or driver */
    uint64_t     cache_hits;       /* 136 allocations served without order work and without upstream */
    uint64_t     event_records;    /* 144 events recorded */
    uint64_t     stream_waits;     /* 152 waits of a stream enqueued */
    uint64_t     dropped_rows;     /* 160 logging: rows lost because the ring was full */
} KinaResourceInfo;

/* A custom resource's functions. They must not throw, are called under no lock, and may call anything except on their
 * own resource. allocate answers SUCCESS, OUT_OF_MEMORY, DEVICE or DEVICE_LOST; anything else counts as DEVICE. */
typedef KinaStatus (*KinaAllocateCallback)(void **out, void *context, uint64_t bytes, uint64_t alignment, KinaStream stream);
typedef KinaStatus (*KinaDeallocateCallback)(void *context, void *data, uint64_t bytes, uint64_t alignment, KinaStream stream);
typedef void (*KinaDestroyCallback)(void *context); /* once, after the last deallocate */

typedef struct KinaResourceVtable { /* 40; option struct, copied together with its name */
    uint32_t               struct_size;      /*  0 sizeof(KinaResourceVtable) */
    int32_t                supports_streams; /*  4 boolean; 0: deallocate is called when a block's users have run */
    const char            *name;             /*  8 NULL: "custom" */
    KinaAllocateCallback   allocate;         /* 16 not NULL */
    KinaDeallocateCallback deallocate;       /* 24 not NULL */
    KinaDestroyCallback    destroy;          /* 32 NULL: nothing to do */
} KinaResourceVtable;
#define KINA_RESOURCE_VTABLE_INIT { (uint32_t)sizeof(KinaResourceVtable), 0, NULL, NULL, NULL, NULL }

typedef struct KinaPoolParams { /* 56; option struct */
    uint32_t   struct_size;             /*  0 sizeof(KinaPoolParams) */
    uint32_t   flags;                   /*  4 KINA_POOL_*; 0: deterministic */
    KinaGrowth growth;                  /*  8 */
    uint32_t   reserved;                /* 12 0 */
    uint64_t   initial_bytes;           /* 16 0: 1 GiB on an accelerator, on the host taken at the first need */
    uint64_t   maximum_bytes;           /* 24 0: no limit of its own */
    uint64_t   growth_bytes;            /* 32 KINA_GROWTH_FIXED: the step; 0: the pool's choice */
    uint64_t   alignment;               /* 40 0: 256; else a power of two; below 256 counts as 256 */
    uint64_t   release_threshold_bytes; /* 48 free bytes kept at a synchronise; 0: all of them */
} KinaPoolParams;
#define KINA_POOL_PARAMS_INIT   { (uint32_t)sizeof(KinaPoolParams), 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct KinaCudaAsyncParams { /* 32; option struct */
    uint32_t struct_size;             /*  0 sizeof(KinaCudaAsyncParams) */
    uint32_t flags;                   /*  4 KINA_CUDA_ASYNC_*; 0: no opportunistic reuse, internal dependencies on */
    uint64_t initial_bytes;           /*  8 0: none */
    uint64_t maximum_bytes;           /* 16 0: the device's */
    uint64_t release_threshold_bytes; /* 24 0: maximum (keep everything) */
} KinaCudaAsyncParams;
#define KINA_CUDA_ASYNC_PARAMS_INIT { (uint32_t)sizeof(KinaCudaAsyncParams), 0, 0, 0, 0 }

typedef struct KinaLogRow { /* 96; filled by the library, valid during the callback */
    uint32_t        struct_size;      /*  0 what the library fills */
    KinaLogEvent    event;            /*  4 */
    KinaStatus      status;           /*  8 failures are rows too */
    uint32_t        frame_count;      /* 12 entries of frames */
    uint64_t        order;            /* 16 1, 2, 3 … for each resource */
    uint64_t        time_nanoseconds; /* 24 monotonic clock; rows may share a reading [KINA-RESOURCE-78] */
    uint64_t        thread;           /* 32 same value for same thread */
    uint64_t        bytes;            /* 40 */
    uint64_t        alignment;        /* 48 */
    void           *data;             /* 56 the block */
    KinaStream      stream;           /* 64 a name; may have ended */
    KinaResource    resource;         /* 72 the logging resource; a name */
    const char     *resource_name;    /* 80 */
    const uint64_t *frames;           /* 88 return addresses, innermost first */
} KinaLogRow;

/* Hears the rows of a logging resource, off the allocating thread, one at a time. */
typedef void (*KinaLogRowCallback)(void *context, const KinaLogRow *row);

typedef struct KinaLoggingParams { /* 48; option struct */
    uint32_t           struct_size; /*  0 sizeof(KinaLoggingParams) */
    uint32_t           flags;       /*  4 KINA_LOGGING_* */
    KinaLogFormat      format;      /*  8 of the file */
    uint32_t           reserved;    /* 12 0 */
    const char        *path;        /* 16 NULL: stderr when callback is NULL too; not together with callback */
    KinaLogRowCallback callback;    /* 24 called off the allocating thread */
    void              *context;     /* 32 handed to callback */
    uint64_t           ring_rows;   /* 40 0: 65,536 */
} KinaLoggingParams;
#define KINA_LOGGING_PARAMS_INIT { (uint32_t)sizeof(KinaLoggingParams), 0, 0, 0, NULL, NULL, NULL, 0 }

/* ---- tensor ---- */

#define KINA_TENSOR_MAGIC  0x414E494Bu /* "KINA" in memory: KinaTensor.magic of a live tensor */
#define KINA_MAX_NDIM      32          /* highest rank */

enum { /* KinaTensor.flags */
    KINA_FLAG_OWNED = 0x1,      /* made by runtime_alloc or an operation */
    KINA_FLAG_VIEW = 0x2,       /* made by a view of another tensor */
    KINA_FLAG_IMPORTED = 0x4,   /* the storage came through DLPack */
    KINA_FLAG_BORROWED = 0x8,   /* the bytes are the caller's; alone with handle 0 */
    KINA_FLAG_READ_ONLY = 0x10, /* writing into it is READ_ONLY */
    KINA_FLAG_PEER = 0x20       /* the bytes are another device's */
};
enum { KINA_ACCESS_READ = 1, KINA_ACCESS_WRITE = 2, KINA_ACCESS_READ_WRITE = 3 };
/* C: computes in every family; S: storage (alloc, DLPack, fill, movement, structure, indexing); K: storage and casts,
 * feature float8. */
enum {
    KINA_DTYPE_BOOL = 0x00010806,    /* C one byte; not 0 is true, results are 0 or 1 */
    KINA_DTYPE_U8 = 0x00010801,      /* C */
    KINA_DTYPE_I8 = 0x00010800,      /* C */
    KINA_DTYPE_U16 = 0x00011001,     /* S */
    KINA_DTYPE_I16 = 0x00011000,     /* C */
    KINA_DTYPE_U32 = 0x00012001,     /* S */
    KINA_DTYPE_I32 = 0x00012000,     /* C */
    KINA_DTYPE_U64 = 0x00014001,     /* S */
    KINA_DTYPE_I64 = 0x00014000,     /* C */
    KINA_DTYPE_F8E4M3FN = 0x0001080A,/* K 4 exponent bits, largest 448, no infinity */
    KINA_DTYPE_F8E5M2 = 0x0001080C,  /* K 5 exponent bits, largest 57344 */
    KINA_DTYPE_F16 = 0x00011002,     /* C IEEE binary16 */
    KINA_DTYPE_BF16 = 0x00011004,    /* C the upper half of binary32 */
    KINA_DTYPE_F32 = 0x00012002,     /* C IEEE binary32 */
    KINA_DTYPE_F64 = 0x00014002,     /* C IEEE binary64 */
    KINA_DTYPE_C64 = 0x00014005,     /* S two f32: real, imaginary */
    KINA_DTYPE_C128 = 0x00018005     /* S two f64: real, imaginary */
};

typedef struct KinaTensor { /* 96; fixed. &t->dl is the tensor as const DLTensor *; casting the struct is not the same */
    DLTensor     dl;         /*  0 data: first byte of the storage, NULL: zero bytes; byte_offset: of element 0 */
    KinaResource allocator;  /* 48 resource that allocated the storage; NULL: none did */
    KinaStream   stream;     /* 56 stream the tensor was created on */
    uint64_t     size_bytes; /* 64 bytes of the underlying storage, from dl.data */
    uint32_t     flags;      /* 72 KINA_FLAG_* */
    uint32_t     magic;      /* 76 KINA_TENSOR_MAGIC in a live tensor, 0 in an empty one */
    uint64_t     handle;     /* 80 names the tensor inside the library; 0 when borrowed */
    uint64_t     reserved;   /* 88 0 */
} KinaTensor;
#define KINA_TENSOR_INIT        { { NULL, { (DLDeviceType)0, 0 }, 0, { 0, 0, 0 }, NULL, NULL, 0 }, NULL, NULL, 0, 0, 0, 0, 0 }

/* ---- storage ---- */

enum { KINA_OVERLAP_DISJOINT = 0, KINA_OVERLAP_SAME = 1, KINA_OVERLAP_PARTIAL = 2 };

typedef struct KinaByteRange { /* 24; fixed, no struct_size: a key. Order: storage, start, end */
    uint64_t storage; /*  0 id, never reused; 0: foreign memory, start and end are then addresses */
    uint64_t start;   /*  8 bytes from the storage's first byte */
    uint64_t end;     /* 16 one past the last byte of the hull; start == end: empty */
} KinaByteRange;

typedef struct KinaFailureInfo { /* 192; output struct. Strings: static, or valid until this thread's next runtime_failure_get */
    uint32_t      struct_size;   /*   0 sizeof(KinaFailureInfo), set by the caller */
    KinaStatus    status;        /*   4 of the root; KINA_SUCCESS: no byte is failed, all else 0 */
    uint64_t      failure;       /*   8 id of the failure, never reused */
    KinaByteRange range;         /*  16 lowest failed run of bytes inside the tensor's hull */
    const char   *function;      /*  40 of the root */
    const char   *message;       /*  48 of the root */
    uint32_t      skipped_count; /*  56 entries set in skipped, at most 16 */
    uint32_t      skipped_total; /*  60 length of the whole chain */
    const char   *skipped[16];   /*  64 functions between its root and these bytes, newest first */
} KinaFailureInfo;

/* ---- dlpack ---- */

enum { /* KinaDlpackParams.flags */
    KINA_DLPACK_COPY = 0x1,     /* export: hand out a copy */
    KINA_DLPACK_READ_ONLY = 0x2 /* the other side may not write */
};

typedef struct KinaDlpackParams { /* 24; option struct */
    uint32_t   struct_size; /*  0 sizeof(KinaDlpackParams) */
    uint32_t   flags;       /*  4 KINA_DLPACK_* */
    KinaStream stream;      /*  8 export: waits for the bytes; import: the bytes are ready on it; NULL: no order */
    uint32_t   max_major;   /* 16 0: 1; versioned export only */
    uint32_t   max_minor;   /* 20 read only when max_major is not 0 */
} KinaDlpackParams;
#define KINA_DLPACK_PARAMS_INIT { (uint32_t)sizeof(KinaDlpackParams), 0, NULL, 0, 0 }

/* ---- elementwise: formulas and dtypes stand in spec/tables/ops.toml ---- */

enum {
    KINA_UNARY_NEG = 0x100, KINA_UNARY_ABS = 0x101, KINA_UNARY_SIGN = 0x102, KINA_UNARY_EXP = 0x103,
    KINA_UNARY_EXPM1 = 0x104, KINA_UNARY_EXP2 = 0x105, KINA_UNARY_LOG = 0x106, KINA_UNARY_LOG1P = 0x107,
    KINA_UNARY_LOG2 = 0x108, KINA_UNARY_SQRT = 0x109, KINA_UNARY_RSQRT = 0x10A, KINA_UNARY_RECIPROCAL = 0x10B,
    KINA_UNARY_SQUARE = 0x10C, KINA_UNARY_SIN = 0x10D, KINA_UNARY_COS = 0x10E, KINA_UNARY_TAN = 0x10F,
    KINA_UNARY_ASIN = 0x110, KINA_UNARY_ACOS = 0x111, KINA_UNARY_ATAN = 0x112, KINA_UNARY_SINH = 0x113,
    KINA_UNARY_COSH = 0x114, KINA_UNARY_TANH = 0x115, KINA_UNARY_ERF = 0x116, KINA_UNARY_SIGMOID = 0x117,
    KINA_UNARY_RELU = 0x118, KINA_UNARY_GELU = 0x119, KINA_UNARY_GELU_TANH = 0x11A, KINA_UNARY_SILU = 0x11B,
    KINA_UNARY_FLOOR = 0x11C, KINA_UNARY_CEIL = 0x11D,
    KINA_UNARY_ROUND = 0x11E, /* half to even */
    KINA_UNARY_TRUNC = 0x11F,
    KINA_UNARY_LOGICAL_NOT = 0x120, KINA_UNARY_BITWISE_NOT = 0x121,
    KINA_UNARY_ISNAN = 0x122, KINA_UNARY_ISINF = 0x123, KINA_UNARY_ISFINITE = 0x124 /* these three give bool */
};
enum {
    KINA_BINARY_ADD = 0x200, KINA_BINARY_SUB = 0x201, KINA_BINARY_MUL = 0x202,
    KINA_BINARY_DIV = 0x203, /* true division */
    KINA_BINARY_FLOOR_DIV = 0x204,
    KINA_BINARY_MOD = 0x205, /* sign of the divisor */
    KINA_BINARY_POW = 0x206,
    KINA_BINARY_MAXIMUM = 0x207, KINA_BINARY_MINIMUM = 0x208, KINA_BINARY_ATAN2 = 0x209,
    KINA_BINARY_LOGICAL_AND = 0x20A, KINA_BINARY_LOGICAL_OR = 0x20B, KINA_BINARY_LOGICAL_XOR = 0x20C,
    KINA_BINARY_BITWISE_AND = 0x20D, KINA_BINARY_BITWISE_OR = 0x20E, KINA_BINARY_BITWISE_XOR = 0x20F,
    KINA_BINARY_SHIFT_LEFT = 0x210, KINA_BINARY_SHIFT_RIGHT = 0x211,
    /* comparisons give bool */
    KINA_BINARY_EQUAL = 0x240, KINA_BINARY_NOT_EQUAL = 0x241, KINA_BINARY_LESS = 0x242, KINA_BINARY_LESS_EQUAL = 0x243,
    KINA_BINARY_GREATER = 0x244, KINA_BINARY_GREATER_EQUAL = 0x245
};

/* ---- reduction ---- */

#define KINA_AXIS_ALL      INT32_MIN /* as an axis: all axes at once */

enum {
    KINA_REDUCE_SUM = 0x300, KINA_REDUCE_MEAN = 0x301, KINA_REDUCE_PROD = 0x302, KINA_REDUCE_MAX = 0x303,
    KINA_REDUCE_MIN = 0x304,
    KINA_REDUCE_ARGMAX = 0x305, KINA_REDUCE_ARGMIN = 0x306, /* give i64 */
    KINA_REDUCE_ANY = 0x307, KINA_REDUCE_ALL = 0x308        /* give bool */
};
enum { KINA_REDUCE_KEEPDIMS = 0x10000 }; /* or'ed into a KinaReduceOp: reduced axes stay with extent 1 */

/* ---- matmul ---- */

enum { KINA_COMPUTE_STRICT = 0, KINA_COMPUTE_TF32 = 1 }; /* TF32: only f32 products may round inputs to 10 bits */

typedef struct KinaMatmulParams { /* 56; option struct. Result: activation(alpha·A·B + beta·C + bias) */
    uint32_t          struct_size; /*  0 sizeof(KinaMatmulParams) */
    int32_t           transpose_a; /*  4 boolean: last two axes of a exchanged */
    int32_t           transpose_b; /*  8 boolean: last two axes of b exchanged */
    int32_t           scaled;      /* 12 boolean; 0: alpha 1, beta 0, neither field read */
    double            alpha;       /* 16 */
    double            beta;        /* 24 C is what a non-empty out holds; 0: C is not read */
    KinaCompute       compute;     /* 32 */
    KinaDtype         out_dtype;   /* 36 0: the inputs' */
    const KinaTensor *bias;        /* 40 NULL: none; shape (n), dtype of the result */
    KinaUnaryOp       activation;  /* 48 0: none; relu, gelu, gelu_tanh, silu, sigmoid, tanh */
    uint32_t          reserved;    /* 52 0 */
} KinaMatmulParams;
#define KINA_MATMUL_PARAMS_INIT { (uint32_t)sizeof(KinaMatmulParams), 0, 0, 0, 0.0, 0.0, 0, 0, NULL, 0, 0 }

/* ==== version ====
 *
 * Which contract a loaded binary speaks and what it offers. A program that was built with a newer header asks here
 * before it relies on what is new. Nothing here opens a device or allocates; the answers never change in a process
 * [KINA-VERSION-18, KINA-VERSION-23]. Strings are static.
 */

/**
 * Returns the version of the contract that the library was built from, major << 16 | minor [KINA-VERSION-1].
 *
 * A program compiled with KINA_ABI_VERSION needs a library with the same major and at least that minor
 * [KINA-VERSION-20].
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: none
 * errors: none
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API uint32_t runtime_abi_version(void);

/**
 * Returns the name and version of the implementation as a static string, never NULL or empty [KINA-VERSION-2].
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: none
 * errors: none
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API const char *runtime_version_string(void);

/**
 * Returns 1 if the build offers a feature, 0 if it does not or does not know the number [KINA-VERSION-3].
 *
 * It speaks of the build, not of the machine: runtime_device_count says whether there is a device. A function whose
 * feature is not offered answers UNSUPPORTED [KINA-VERSION-5].
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: none
 * errors: none
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API int32_t runtime_has_feature(KinaFeature feature);

/**
 * Reports where a field stands in a struct of the loaded binary, in bytes [KINA-VERSION-6].
 *
 * `type` names a public struct, "KinaTensor"; `field` one of its fields, "dl.shape", or is NULL for the whole struct:
 * offset 0 and its size. Every struct and field of this header is known [KINA-VERSION-8].
 *
 * INVALID_ARGUMENT  `offset`, `bytes` or `type` is NULL
 * UNSUPPORTED       the binary knows no such type or field [KINA-VERSION-7]
 *
 * since: 1.0
 * feature: core
 * null: field
 * owner: offset produce, bytes produce, type borrow, field borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23; UNSUPPORTED KINA-VERSION-7
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_field_layout(uint64_t *offset, uint64_t *bytes, const char *type, const char *field);

/* ==== status ====
 *
 * How a call failed, in the words of the thread that made it. Each thread has one error record: the last failure of
 * its own calls. A failing call replaces it, a successful one leaves it alone [KINA-STATUS-3, KINA-STATUS-4,
 * KINA-STATUS-8]; the functions that read it never set it [KINA-STATUS-5]. Its strings live until the next failing
 * call of the same thread [KINA-STATUS-9]; no function returns a NULL string [KINA-STATUS-46].
 */

/**
 * Returns the word of a status, "INVALID_SHAPE", and "UNKNOWN" for a number without one [KINA-STATUS-2].
 *
 * The string is static. An unknown number is still a failure, of a newer library.
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: none
 * errors: none
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API const char *runtime_status_name(KinaStatus status);

/**
 * Returns the message of the calling thread's error record, "" when there is none [KINA-STATUS-6].
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: none
 * errors: none
 * stream: host
 * alloc: none
 * thread: calling
 */
KINA_API const char *runtime_last_error_message(void);

/**
 * Copies the calling thread's error record into `*out`; with no record, status 0 and message "" [KINA-STATUS-6].
 *
 * Its own failures set no record [KINA-STATUS-5].
 *
 * INVALID_ARGUMENT  `out` is NULL
 * VERSION           `out->struct_size` is wrong [KINA-VERSION-11, KINA-VERSION-12]
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23; VERSION KINA-VERSION-11 KINA-VERSION-12
 * stream: host
 * alloc: none
 * thread: calling
 */
KINA_API KinaStatus runtime_last_error(KinaErrorInfo *out);

/**
 * Removes the calling thread's error record [KINA-STATUS-7].
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: none
 * errors: none
 * stream: host
 * alloc: none
 * thread: calling
 */
KINA_API void runtime_clear_last_error(void);

/**
 * Makes `callback` hear the library's messages at or below `level`; NULL ends logging [KINA-STATUS-39].
 *
 * One callback serves the process. It is called on the thread whose call it tells of, by several at once
 * [KINA-STATUS-51], under no lock; it must not throw, and may call anything but this function [KINA-STATUS-38,
 * KINA-STATUS-41]. Its own calls are not logged [KINA-STATUS-43]. When this function returns, no other thread is inside
 * the old callback, whose context may then be freed. A forked child starts with none [KINA-STATUS-42].
 *
 * UNSUPPORTED  a level outside KINA_LOG_OFF … KINA_LOG_TRACE [KINA-STATUS-40]
 * BUSY         called from inside a log callback [KINA-STATUS-41]
 *
 * since: 1.0
 * feature: core
 * null: callback, context
 * owner: callback keep, context keep
 * errors: BUSY KINA-STATUS-41; UNSUPPORTED KINA-STATUS-40
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_set_log_callback(KinaLogCallback callback, void *context, KinaLogLevel level);

/* ==== device ====
 *
 * A device is a DLPack device type and an id from 0: kDLCPU 1 is the host, with id 0 alone; kDLCUDA 2; kDLCUDAHost 3
 * (pinned host memory) and kDLCUDAManaged 13, both on machines with CUDA devices [KINA-DEVICE-4]; kDLExtDev 12, devices
 * simulated on the host. Counts never change in a process [KINA-DEVICE-5].
 *
 * In every function but runtime_device_count a type without devices is UNSUPPORTED and an id outside 0 … count−1 is
 * INVALID_ARGUMENT [KINA-STATUS-24]. A device whose work ended with an unrecoverable error is lost: calls on it are
 * DEVICE_LOST from then on, releases still succeed [KINA-DEVICE-21, KINA-STATUS-30]. No pointer here may be NULL.
 */

/**
 * Gives the number of devices of a type, 0 for a type without devices, known or not [KINA-DEVICE-1].
 *
 * INVALID_ARGUMENT  `out` is NULL
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_device_count(int32_t *out, int32_t device_type);

/**
 * Describes a device [KINA-DEVICE-6 to KINA-DEVICE-8]; of a lost one too, with `is_lost` 1 [KINA-DEVICE-22].
 *
 * INVALID_ARGUMENT  `out` is NULL, or no such id
 * UNSUPPORTED       the type has no devices
 * VERSION           `out->struct_size` is wrong
 * DEVICE, DEVICE_LOST  the driver refused, or this is a forked child
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24; UNSUPPORTED KINA-STATUS-24; VERSION KINA-VERSION-11 KINA-VERSION-12; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-STATUS-36 injected
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_device_info(KinaDeviceInfo *out, int32_t device_type, int32_t device_id);

/**
 * Gives 1 if a device can read and write memory of the device `peer_id` of its type, else 0 [KINA-DEVICE-9].
 *
 * Every device can access itself.
 *
 * INVALID_ARGUMENT  `out` is NULL, or one of the ids does not exist
 * UNSUPPORTED       the type has no devices
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24; UNSUPPORTED KINA-STATUS-24; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_device_can_access(int32_t *out, int32_t device_type, int32_t device_id, int32_t peer_id);

/**
 * Waits until all work enqueued on a device before the call has run, on imported streams too [KINA-DEVICE-11].
 *
 * Failures that the work found go to the tensors concerned and are no failure of this call [KINA-DEVICE-12].
 *
 * INVALID_ARGUMENT  no such id
 * UNSUPPORTED       the type has no devices, or a stream of the device captures [KINA-STREAM-22]
 * OUT_OF_MEMORY     no host memory for an event or a failure
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: none
 * errors: INVALID_ARGUMENT KINA-STATUS-24; UNSUPPORTED KINA-STATUS-24 KINA-STREAM-22; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: synchronises
 * alloc: host
 * thread: any
 */
KINA_API KinaStatus runtime_device_synchronize(int32_t device_type, int32_t device_id);

/**
 * Enters a scope of a device on the calling thread: its context becomes current, its stream is bound [KINA-DEVICE-14].
 *
 * What is bound, from entry to end: the newest live redirect on the device, else the newest live phase, else the main
 * stream [KINA-DEVICE-15]. A runtime_stream_push for the device stays in force. Entering is all or nothing
 * [KINA-DEVICE-16]. runtime_scope_pop restores the stream, then the context; if others changed the context inside, it
 * is restored, logged at WARNING, and no failure [KINA-DEVICE-18, KINA-DEVICE-19].
 *
 * INVALID_ARGUMENT  `out` is NULL, or no such id
 * UNSUPPORTED       the type has no devices
 * OUT_OF_MEMORY     no memory for the scope
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24; UNSUPPORTED KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: handle, host, device
 * thread: calling
 */
KINA_API KinaStatus runtime_device_push(KinaScope *out, int32_t device_type, int32_t device_id);

/* ==== stream ====
 *
 * A stream is a queue of work of one device. Host streams exist, are real handles and always idle, so that programs
 * need not know where they run [KINA-STREAM-10]. Handles are made here and named by tensors; NULL where one is demanded
 * is INVALID_ARGUMENT [KINA-STATUS-28], an ended or wrong one INVALID_HANDLE [KINA-STATUS-26].
 *
 * Which stream. A stream parameter that is not NULL wins; NULL means runtime_stream_current [KINA-STREAM-27]. An
 * operation takes the first of: (1) the newest runtime_stream_push for the execution device on this thread; (2) inside
 * a runtime_device_push scope of that device, what it binds: redirect, else phase, else main; (3) the stream of a
 * non-empty `out`; (4) the first input's; (5) main [KINA-STREAM-30]. Ended streams and those of other devices do not
 * count in (3) and (4) [KINA-STREAM-31]. The execution device is that of `out`, else of the inputs, and for copies
 * between devices the accelerator's end [KINA-STREAM-29].
 *
 * Order. Uses of one storage through tensors of its own device are ordered by the library in the order of the calls, on
 * whatever streams [KINA-STREAM-33]. Work on the host is complete at return [KINA-STREAM-36]. The caller orders
 * accesses through PEER tensors and aliases of foreign memory [KINA-STREAM-38].
 *
 * Scopes. Every push acts on the calling thread alone (captures are announced to all) and gives a token;
 * runtime_scope_pop ends the newest. Scopes that are left end with their thread [KINA-STREAM-43 to KINA-STREAM-48].
 * Tokens are not shared with other threads.
 *
 * Ownership. Handles of runtime_stream_checkout are checked in, those of runtime_stream_import released; all others are
 * borrowed and never ended [KINA-STREAM-9].
 */

/**
 * Gives the main stream of a device, the same handle at every call [KINA-STREAM-1].
 *
 * No push changes it; capture and fencing use it [KINA-STREAM-2]. The handle is borrowed and never ends.
 *
 * INVALID_ARGUMENT  `out` is NULL, or no such id
 * UNSUPPORTED       the type has no devices
 * OUT_OF_MEMORY     no memory for the stream
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24; UNSUPPORTED KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: handle, host, device
 * thread: any
 */
KINA_API KinaStatus runtime_stream_main(KinaStream *out, int32_t device_type, int32_t device_id);

/**
 * Takes a stream of a device for the caller alone, until it is checked in [KINA-STREAM-3].
 *
 * INVALID_ARGUMENT  `out` is NULL, or no such id
 * UNSUPPORTED       the type has no devices
 * OUT_OF_MEMORY     no memory for the stream
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24; UNSUPPORTED KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: handle, host, device
 * thread: any
 */
KINA_API KinaStatus runtime_stream_checkout(KinaStream *out, int32_t device_type, int32_t device_id);

/**
 * Gives a checked-out stream back; the handle ends, work on the stream stays ordered [KINA-STREAM-4].
 *
 * A release: it fails only for the caller's faults [KINA-STATUS-30].
 *
 * INVALID_ARGUMENT  `stream` is NULL or was not checked out [KINA-STREAM-5]
 * INVALID_HANDLE    `stream` is no live stream
 * BUSY              it is pushed on some thread, or captures [KINA-STREAM-6]
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: stream consume
 * errors: INVALID_ARGUMENT KINA-STATUS-28 KINA-STREAM-5; INVALID_HANDLE KINA-STATUS-26; BUSY KINA-STREAM-6
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_stream_checkin(KinaStream stream);

/**
 * Gives a handle to a native stream of the caller's, a `cudaStream_t` [KINA-STREAM-13].
 *
 * One native stream has one handle, counted; each import is ended by runtime_stream_release. The native stream must
 * live until the last of them, and until the deleters of DLPack exports and imports that were given it have run
 * [KINA-STREAM-52]. 1 is CUDA's legacy default stream, not capturable; 2 the per-thread one, usable on the importing
 * thread alone [KINA-STREAM-14]. The library never destroys it [KINA-STREAM-16].
 *
 * INVALID_ARGUMENT  `out` or `native` is NULL, no such id, or the driver knows no such stream [KINA-STREAM-51]
 * UNSUPPORTED       the type has no devices, or is the host [KINA-STREAM-12]
 * OUT_OF_MEMORY     no memory for the stream
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, native keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-STREAM-51; UNSUPPORTED KINA-STATUS-24 KINA-STREAM-12; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: handle, host, device
 * thread: any
 */
KINA_API KinaStatus runtime_stream_import(KinaStream *out, int32_t device_type, int32_t device_id, void *native);

/**
 * Ends one import of a native stream; the last one ends the handle [KINA-STREAM-13].
 *
 * A release: it fails only for the caller's faults [KINA-STATUS-30].
 *
 * INVALID_ARGUMENT  `stream` is NULL or was not imported [KINA-STREAM-15]
 * INVALID_HANDLE    `stream` is no live stream
 * BUSY              the last import, while it is pushed or captures [KINA-STREAM-50]
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: stream consume
 * errors: INVALID_ARGUMENT KINA-STATUS-28 KINA-STREAM-15; INVALID_HANDLE KINA-STATUS-26; BUSY KINA-STREAM-50
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_stream_release(KinaStream stream);

/**
 * Gives the native handle of a stream: a `cudaStream_t`, on simulated devices a `KinaSimStream *` of kina_simulated.h;
 * NULL on the host [KINA-STREAM-17].
 *
 * It stays the library's. Foreign work put on it is ordered by the caller, or declared with runtime_tensor_record_use.
 *
 * INVALID_ARGUMENT  `out` or `stream` is NULL
 * INVALID_HANDLE    `stream` is no live stream
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, stream borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_stream_native(void **out, KinaStream stream);

/**
 * Waits until all work enqueued on a stream before the call has run [KINA-STREAM-18].
 *
 * Failures that the work found go to the tensors concerned and are no failure of this call [KINA-STORAGE-43].
 *
 * INVALID_ARGUMENT  `stream` is NULL
 * INVALID_HANDLE    `stream` is no live stream
 * UNSUPPORTED       it captures, or is another thread's per-thread stream [KINA-STREAM-22, KINA-STREAM-14]
 * OUT_OF_MEMORY     no host memory for an event or a failure
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: stream borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; UNSUPPORTED KINA-STREAM-14 KINA-STREAM-22; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: synchronises
 * alloc: host
 * thread: any
 */
KINA_API KinaStatus runtime_stream_synchronize(KinaStream stream);

/**
 * Gives 1 if all work enqueued on a stream has run, else 0, without waiting [KINA-STREAM-19].
 *
 * INVALID_ARGUMENT  `out` or `stream` is NULL
 * INVALID_HANDLE    `stream` is no live stream
 * UNSUPPORTED       it captures, or is another thread's per-thread stream
 * OUT_OF_MEMORY     no host memory for an event or a failure
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, stream borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; UNSUPPORTED KINA-STREAM-14 KINA-STREAM-22; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: host
 * thread: any
 */
KINA_API KinaStatus runtime_stream_query(int32_t *out, KinaStream stream);

/**
 * Orders later work on `stream` after the work that is now on `awaited` [KINA-STREAM-20].
 *
 * The call itself does not wait, unless `stream` is a host stream [KINA-STREAM-21]. The two may be of different
 * devices.
 *
 * INVALID_ARGUMENT  one is NULL
 * INVALID_HANDLE    one is no live stream
 * UNSUPPORTED       one captures, or is another thread's per-thread stream
 * OUT_OF_MEMORY     no memory for the event
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: stream borrow, awaited borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; UNSUPPORTED KINA-STREAM-14 KINA-STREAM-22; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host/enqueues
 * alloc: host, device
 * thread: any
 */
KINA_API KinaStatus runtime_stream_wait(KinaStream stream, KinaStream awaited);

/**
 * Gives the stream that NULL means on the calling thread for a device [KINA-STREAM-23, KINA-STREAM-24].
 *
 * The newest runtime_stream_push for it, else what the innermost device scope of it binds, else its main stream. The
 * handle is borrowed.
 *
 * INVALID_ARGUMENT  `out` is NULL, or no such id
 * UNSUPPORTED       the type has no devices
 * OUT_OF_MEMORY     no memory for the stream
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24; UNSUPPORTED KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: handle, host, device
 * thread: calling
 */
KINA_API KinaStatus runtime_stream_current(KinaStream *out, int32_t device_type, int32_t device_id);

/**
 * Gives the stream of a phase of a device, made once, the same at every call [KINA-STREAM-7].
 *
 * Alternating phases puts successive steps on disjoint streams. Nothing but shared storages orders them. The handle is
 * borrowed and lives as long as the process.
 *
 * INVALID_ARGUMENT  `out` is NULL, no such id, or a negative phase [KINA-STREAM-8]
 * UNSUPPORTED       the type has no devices
 * OUT_OF_MEMORY     no memory for the stream
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-STREAM-8; UNSUPPORTED KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: handle, host, device
 * thread: any
 */
KINA_API KinaStatus runtime_stream_phase(KinaStream *out, int32_t device_type, int32_t device_id, int32_t phase);

/**
 * Sends the calling thread's work on the stream's device to it, until popped [KINA-STREAM-23].
 *
 * It is stronger than device scopes, also than those entered after it. The matching library handles and workspaces go
 * with it. While pushed the stream cannot be checked in or released.
 *
 * INVALID_ARGUMENT  `out` or `stream` is NULL
 * INVALID_HANDLE    `stream` is no live stream
 * UNSUPPORTED       it is another thread's per-thread stream [KINA-STREAM-14]
 * OUT_OF_MEMORY     no memory for the scope
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, stream keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; UNSUPPORTED KINA-STREAM-14; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: calling
 */
KINA_API KinaStatus runtime_stream_push(KinaScope *out, KinaStream stream);

/**
 * Makes device scopes entered from now on bind the stream of a phase [KINA-DEVICE-15].
 *
 * A redirect is stronger. Scopes that are open keep what they bound [KINA-STREAM-25].
 *
 * INVALID_ARGUMENT  `out` is NULL, or a negative phase [KINA-STREAM-8]
 * OUT_OF_MEMORY     no memory for the scope
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STREAM-8; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: calling
 */
KINA_API KinaStatus runtime_phase_push(KinaScope *out, int32_t phase);

/**
 * Makes scopes of the stream's device entered from now on bind it [KINA-DEVICE-15].
 *
 * Nested redirects restore the outer one. Scopes that are open keep what they bound [KINA-STREAM-25].
 *
 * INVALID_ARGUMENT  `out` or `stream` is NULL
 * INVALID_HANDLE    `stream` is no live stream
 * UNSUPPORTED       it is another thread's per-thread stream [KINA-STREAM-14]
 * OUT_OF_MEMORY     no memory for the scope
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, stream keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; UNSUPPORTED KINA-STREAM-14; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: calling
 */
KINA_API KinaStatus runtime_redirect_push(KinaScope *out, KinaStream stream);

/**
 * Announces that a stream captures: calls on it are recorded, not run [KINA-STREAM-39, KINA-STREAM-40].
 *
 * Memory of recorded work comes from `resource` alone, which the caller keeps as long as the graph. Capture itself is
 * begun and ended by the caller through the native handle, best after this call and before its token is popped: what
 * was on the stream before can then be waited for meanwhile. No stream is bound by it. Without the announcement work on
 * a capturing stream is refused, and with it what needs host memory [KINA-STREAM-41]. Each recorded gather keeps what
 * its replays need to check indices, a little host memory, as long as its graph lives [KINA-INDEXING-25].
 *
 * INVALID_ARGUMENT  a parameter is NULL
 * INVALID_HANDLE    `stream` or `resource` is not live
 * DEVICE_MISMATCH   they are of different devices [KINA-STREAM-49]
 * UNSUPPORTED       no feature capture; a host or legacy default stream [KINA-STREAM-42]
 * OUT_OF_MEMORY     no memory for the scope
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: capture
 * null: none
 * owner: out produce, stream keep, resource keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; DEVICE_MISMATCH KINA-STREAM-49; UNSUPPORTED KINA-VERSION-5 KINA-STREAM-14 KINA-STREAM-42; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: handle, host
 * thread: calling
 */
KINA_API KinaStatus runtime_capture_push(KinaScope *out, KinaStream stream, KinaResource resource);

/**
 * Ends the calling thread's newest scope and restores what was in force before it [KINA-STREAM-44].
 *
 * One function for every push: device, stream, phase, redirect, capture and resource. A release: it fails only for the
 * caller's faults, and then changes nothing.
 *
 * INVALID_ARGUMENT  `scope` is NULL, or live but not this thread's newest [KINA-STREAM-45]
 * INVALID_HANDLE    `scope` was popped, its thread ended, or it is no scope [KINA-STREAM-45]
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: scope consume
 * errors: INVALID_ARGUMENT KINA-STATUS-28 KINA-STREAM-45; INVALID_HANDLE KINA-STATUS-26 KINA-STREAM-45
 * stream: host
 * alloc: none
 * thread: calling
 */
KINA_API KinaStatus runtime_scope_pop(KinaScope scope);

/* ==== resource ====
 *
 * Where bytes come from. A resource allocates and deallocates on one device. Bases ask the system, the driver or the
 * caller's own callbacks (host, cuda, cuda_async, custom); adaptors (pool, logging, limit) stand on an upstream and
 * keep it [KINA-RESOURCE-5]. They nest, up to 64 of them [KINA-RESOURCE-75]: logging(pool(host)).
 *
 * Ownership. Every maker gives a counted handle of a new resource, which one `runtime_resource_release` ends
 * [KINA-RESOURCE-1]. `runtime_resource_current`, `previous`, `KinaResourceInfo.upstream`, `KinaTensor.allocator` and
 * `KinaLogRow.resource` carry the borrowed handle: another name of the same resource, the same value each time, never
 * equal to the counted handle. Compare borrowed handles with borrowed ones. They serve wherever a counted one does,
 * live as long as the resource and are never released: doing so is INVALID_ARGUMENT [KINA-RESOURCE-2, KINA-RESOURCE-3].
 * A resource lives while its counted handle, a live block, an adaptor, a default, a push or a capture scope needs it
 * [KINA-RESOURCE-4 to KINA-RESOURCE-6].
 *
 * Current. Each device has one default for all threads, and each thread a push stack for each device; the newest push
 * counts, else the default [KINA-RESOURCE-9]. Storages, results, temporaries and workspaces come from the current
 * resource of their device [KINA-RESOURCE-10], and go back to the one that they came from [KINA-RESOURCE-8]. Built-in
 * defaults are set without recompiling by the environment variable
 *     KINA_RESOURCE="cpu=logging(pool(host));cuda=pool(cuda_async)"
 * with devices cpu, cuda, sim and resources host, cuda, cuda_async, sim, pool(r), logging(r) (text to stderr),
 * limit(r,bytes) [KINA-RESOURCE-67]. A bad string makes every call that needs a built-in default INVALID_ARGUMENT, with
 * a message that says where it is bad [KINA-RESOURCE-69].
 *
 * NULL. A NULL handle is INVALID_ARGUMENT unless the `null` tag names it; NULL params mean defaults.
 *
 * Threads. All functions may be called from any thread. Callbacks and row callbacks run under no lock of the library,
 * must not throw, and may call anything except on the resource that they serve [KINA-STATUS-38].
 *
 * Order. A NULL `stream` means the current stream of the resource's device. On the host memory is ready at return; a
 * deallocated block is reused only after or ordered after the work that was enqueued on the deallocating stream
 * [KINA-RESOURCE-22 to KINA-RESOURCE-24].
 */

/**
 * Makes a resource over the host's heap.
 *
 * Blocks are aligned to 256 bytes or to more where asked [KINA-RESOURCE-18 to KINA-RESOURCE-20]. Every request goes to
 * the system; nothing is kept.
 *
 * INVALID_ARGUMENT  `out` is NULL
 * OUT_OF_MEMORY     no handle or no host memory for its tables
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_resource_host(KinaResource *out);

/**
 * Makes a resource that takes each block from the CUDA driver and gives it back at once, waiting for its users first.
 *
 * INVALID_ARGUMENT  `out` is NULL, or `device_id` is outside the CUDA devices
 * OUT_OF_MEMORY     no handle or no host memory for its tables
 * UNSUPPORTED       the build has no feature cuda, or the machine no CUDA device
 * DEVICE, DEVICE_LOST  the driver refused
 *
 * since: 1.0
 * feature: cuda
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44; UNSUPPORTED KINA-STATUS-24 KINA-VERSION-5; DEVICE KINA-RESOURCE-1 KINA-DEVICE-23 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_resource_cuda(KinaResource *out, int32_t device_id);

/**
 * Makes a resource over a stream-ordered pool of the CUDA driver.
 *
 * `initial_bytes` are reserved at once, `maximum_bytes` bound the pool (0: the device), `release_threshold_bytes` are
 * kept over a synchronise (0: everything). By default the driver reuses a block only where the order of streams is
 * known or made, never because work happens to have finished; KINA_CUDA_ASYNC_OPPORTUNISTIC lets it.
 *
 * INVALID_ARGUMENT  `out` is NULL, `device_id` is outside the CUDA devices, or `initial_bytes` is above `maximum_bytes`
 * UNSUPPORTED       the build has no feature cuda, the machine no CUDA device, the device no memory pools; unknown flag
 * VERSION           `struct_size` is wrong
 * OUT_OF_MEMORY     `initial_bytes`, a handle or host memory could not be had
 * DEVICE, DEVICE_LOST  the driver refused
 *
 * since: 1.0
 * feature: cuda
 * null: params
 * owner: out produce, params borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-RESOURCE-39; UNSUPPORTED KINA-STATUS-24 KINA-VERSION-5 KINA-VERSION-16; VERSION KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-RESOURCE-1 KINA-DEVICE-23 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 injected
 * stream: host
 * alloc: handle, host, device
 * thread: any
 */
KINA_API KinaStatus runtime_resource_cuda_async(KinaResource *out, int32_t device_id, const KinaCudaAsyncParams *params);

/**
 * Makes a pool: takes spans from `upstream`, serves blocks from them, and keeps what is freed.
 *
 * `flags`: KINA_POOL_LAZY takes the first span at the first allocation instead of now, KINA_POOL_OPPORTUNISTIC lets the
 * pool reuse a block because the work on it is seen to have finished (default: only where the order is known, so that
 * runs repeat). `growth`: KINA_GROWTH_GEOMETRIC takes ever larger spans, KINA_GROWTH_FIXED multiples of `growth_bytes`
 * (0: the pool's choice), KINA_GROWTH_NONE none after the first [KINA-RESOURCE-40, KINA-RESOURCE-41]. `initial_bytes`
 * is the first span; 0 means 1 GiB on an accelerator and, on the host, what the first allocation needs
 * [KINA-RESOURCE-38, KINA-RESOURCE-71]. `maximum_bytes` bounds what is held [KINA-RESOURCE-39], `alignment` every block
 * [KINA-RESOURCE-43], `release_threshold_bytes` what stays over a synchronise [KINA-RESOURCE-44]. All amounts are in
 * bytes. Exhausted, the pool first gives free spans back and asks once more [KINA-RESOURCE-42]. Adjacent free blocks
 * are merged [KINA-RESOURCE-46].
 *
 * INVALID_ARGUMENT  `out` or `upstream` is NULL, `alignment` is no power of two, or `initial_bytes` is above
 *                   `maximum_bytes`
 * INVALID_HANDLE    `upstream` is not live
 * UNSUPPORTED       unknown flag or growth [KINA-RESOURCE-45]
 * VERSION           `struct_size` or a reserved field is wrong
 * OUT_OF_MEMORY     `initial_bytes`, a handle or host memory could not be had
 * DEVICE, DEVICE_LOST  the upstream's answer to the initial allocation [KINA-RESOURCE-38]
 *
 * since: 1.0
 * feature: core
 * null: params
 * owner: out produce, upstream keep, params borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28 KINA-RESOURCE-39 KINA-RESOURCE-43 KINA-RESOURCE-75; INVALID_HANDLE KINA-STATUS-26; UNSUPPORTED KINA-RESOURCE-45; VERSION KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13 KINA-VERSION-14; OUT_OF_MEMORY KINA-STATUS-44 KINA-RESOURCE-38; DEVICE KINA-RESOURCE-38 KINA-RESOURCE-63; DEVICE_LOST KINA-RESOURCE-38 KINA-RESOURCE-63
 * stream: host/enqueues
 * alloc: handle, host, resource
 * thread: any
 */
KINA_API KinaStatus runtime_resource_pool(KinaResource *out, KinaResource upstream, const KinaPoolParams *params);

/**
 * Makes a resource that passes everything to `upstream` and reports each request as a row.
 *
 * Rows go into a ring of `ring_rows` (0: 65,536) and from there, on another thread, to `callback(context, row)`, to the
 * file `path`, or with neither to stderr, as text or JSON lines as `format` says [KINA-RESOURCE-52 to
 * KINA-RESOURCE-57]. Refused requests are rows too [KINA-RESOURCE-50]; order numbers count the rows of this resource
 * from 1, and a gap is a row that found the ring full [KINA-RESOURCE-51, KINA-RESOURCE-53]. KINA_LOGGING_FRAMES adds
 * the return addresses of the calling thread, at several times the cost of a row [KINA-RESOURCE-58]. The row, its name
 * and frames are valid during the callback. Waiting rows are delivered before the resource is destroyed, and none after
 * [KINA-RESOURCE-54]; the callback may release resources, its own included [KINA-RESOURCE-76].
 *
 * INVALID_ARGUMENT  `out` or `upstream` is NULL, both `path` and `callback` are set, `path` cannot be opened, or
 *                   `ring_rows` overflows
 * INVALID_HANDLE    `upstream` is not live
 * UNSUPPORTED       unknown flag or format [KINA-RESOURCE-59]
 * VERSION           `struct_size` or a reserved field is wrong
 * OUT_OF_MEMORY     the ring, the thread, a handle or host memory could not be had
 *
 * since: 1.0
 * feature: core
 * null: params, params.path, params.callback, params.context
 * owner: out produce, upstream keep, params borrow, params.path borrow, params.callback keep, params.context keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-25 KINA-STATUS-28 KINA-RESOURCE-55 KINA-RESOURCE-75; INVALID_HANDLE KINA-STATUS-26; UNSUPPORTED KINA-RESOURCE-59; VERSION KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13 KINA-VERSION-14; OUT_OF_MEMORY KINA-STATUS-44
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_resource_logging(KinaResource *out, KinaResource upstream, const KinaLoggingParams *params);

/**
 * Makes a resource that passes everything to `upstream` as long as its live bytes stay at or below `maximum_bytes`.
 *
 * Bytes count as requested; the bound is exact under any races of threads, and 0 refuses all but zero bytes
 * [KINA-RESOURCE-48, KINA-RESOURCE-49].
 *
 * INVALID_ARGUMENT  `out` or `upstream` is NULL
 * INVALID_HANDLE    `upstream` is not live
 * OUT_OF_MEMORY     no handle or no host memory for its tables
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, upstream keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28 KINA-RESOURCE-75; INVALID_HANDLE KINA-STATUS-26; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_resource_limit(KinaResource *out, KinaResource upstream, uint64_t maximum_bytes);

/**
 * Makes a resource of the caller's callbacks, on the device named.
 *
 * `vtable` and its name are copied [KINA-RESOURCE-61]; `context` is passed to every callback and must live until
 * `destroy` has run, which it does once, after the release and the last deallocation [KINA-RESOURCE-65]. `allocate`
 * stores a block of the bytes and alignment that it is given and answers SUCCESS, OUT_OF_MEMORY, DEVICE or DEVICE_LOST;
 * any other answer counts as DEVICE, and a block that comes with it, or is misaligned, is given back [KINA-RESOURCE-62,
 * KINA-RESOURCE-63]. A `deallocate` that fails counts its block as leaked [KINA-RESOURCE-64]. A vtable that does not
 * support streams is called for deallocation only after the work on the block has run. Callbacks may come from any
 * thread and at the same time.
 *
 * INVALID_ARGUMENT  `out`, `vtable`, `vtable->allocate` or `vtable->deallocate` is NULL, or the device id is outside
 *                   the devices of its type
 * UNSUPPORTED       the device type has no devices
 * VERSION           `struct_size` is wrong
 * OUT_OF_MEMORY     no handle or no host memory for its tables
 *
 * since: 1.0
 * feature: core
 * null: vtable.name, vtable.destroy, context
 * owner: out produce, vtable borrow, vtable.name borrow, vtable.allocate keep, vtable.deallocate keep, vtable.destroy keep, context keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-RESOURCE-61; UNSUPPORTED KINA-STATUS-24; VERSION KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_resource_custom(KinaResource *out, int32_t device_type, int32_t device_id, const KinaResourceVtable *vtable, void *context);

/**
 * Ends a counted handle; the resource is destroyed once nothing needs it any more.
 *
 * With live blocks or an adaptor on it the call succeeds and destruction waits for the last of them [KINA-RESOURCE-6].
 * The handle is dead at once, also for `runtime_memory_deallocate`: raw blocks still live go back through the borrowed
 * handle [KINA-RESOURCE-7].
 *
 * INVALID_ARGUMENT  `resource` is NULL or a borrowed handle [KINA-RESOURCE-3]
 * INVALID_HANDLE    `resource` is not live
 * BUSY              the resource is a default, pushed by a thread, or in a capture scope [KINA-RESOURCE-4]
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: resource consume
 * errors: INVALID_ARGUMENT KINA-STATUS-28 KINA-RESOURCE-3; INVALID_HANDLE KINA-STATUS-26; BUSY KINA-RESOURCE-4
 * stream: host/enqueues
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_resource_release(KinaResource resource);

/**
 * Reports what a resource is and what it has counted so far.
 *
 * Counters are exact when no other call on the resource is running, and never torn [KINA-RESOURCE-30 to
 * KINA-RESOURCE-36, KINA-RESOURCE-77]. `upstream` is borrowed, `name` lives as long as the resource.
 *
 * INVALID_ARGUMENT  `out` or `resource` is NULL
 * INVALID_HANDLE    `resource` is not live
 * VERSION           `struct_size` is wrong
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, out.upstream borrow, out.name borrow, resource borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; VERSION KINA-VERSION-11 KINA-VERSION-12
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_resource_info(KinaResourceInfo *out, KinaResource resource);

/**
 * Lets the nearest pool at or below `resource` give wholly free spans back to its upstream, as long as at least
 * `keep_bytes` free bytes stay.
 *
 * Stores the bytes given back, 0 where there is no pool [KINA-RESOURCE-47]. Spans that hold a live block stay, and so
 * does one whose last use cannot be waited for, as on a stream that captures [KINA-RESOURCE-73].
 *
 * INVALID_ARGUMENT  `resource` is NULL
 * INVALID_HANDLE    `resource` is not live
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: released_bytes
 * owner: released_bytes produce, resource borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; DEVICE KINA-RESOURCE-47 KINA-DEVICE-23 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 injected
 * stream: host/enqueues
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_resource_trim(uint64_t *released_bytes, KinaResource resource, uint64_t keep_bytes);

/**
 * Makes `resource` the default of one device, for all threads that have not pushed another.
 *
 * `previous` gets the borrowed handle of the default that was replaced; giving it to this function again restores
 * exactly that one, as long as its resource lives [KINA-RESOURCE-13]. NULL restores the built-in default
 * [KINA-RESOURCE-14]. The resource stays needed while it is the default, and the default of no other device changes.
 *
 * INVALID_ARGUMENT  the device id is outside the devices of its type, or the built-in default is needed and
 *                   `KINA_RESOURCE` is bad [KINA-RESOURCE-69]
 * INVALID_HANDLE    `resource` is not live
 * DEVICE_MISMATCH   `resource` is of another device [KINA-RESOURCE-15]
 * UNSUPPORTED       the device type has no devices
 * OUT_OF_MEMORY     the built-in default could not be made
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: previous, resource
 * owner: previous produce, resource keep
 * errors: INVALID_ARGUMENT KINA-STATUS-24 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26; DEVICE_MISMATCH KINA-RESOURCE-15; UNSUPPORTED KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-RESOURCE-14 KINA-DEVICE-23 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_resource_set_default(KinaResource *previous, int32_t device_type, int32_t device_id, KinaResource resource);

/**
 * Makes `resource` current for its device on the calling thread, until the token is popped or the thread ends.
 *
 * Other threads and other devices are untouched [KINA-RESOURCE-11, KINA-RESOURCE-12]. Pop with `runtime_scope_pop`,
 * newest first.
 *
 * INVALID_ARGUMENT  `out` or `resource` is NULL
 * INVALID_HANDLE    `resource` is not live
 * OUT_OF_MEMORY     no handle or no host memory for the scope
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, resource keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: calling
 */
KINA_API KinaStatus runtime_resource_push(KinaScope *out, KinaResource resource);

/**
 * Gives the borrowed handle of the resource that allocations of this thread on that device come from.
 *
 * The innermost push of the calling thread for that device, else the device's default [KINA-RESOURCE-9].
 *
 * INVALID_ARGUMENT  `out` is NULL, the device id is outside the devices of its type, or `KINA_RESOURCE` is bad
 *                   [KINA-RESOURCE-69]
 * UNSUPPORTED       the device type has no devices
 * OUT_OF_MEMORY     the built-in default could not be made
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-RESOURCE-69; UNSUPPORTED KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-RESOURCE-14 KINA-DEVICE-23 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: calling
 */
KINA_API KinaStatus runtime_resource_current(KinaResource *out, int32_t device_type, int32_t device_id);

/**
 * Allocates a raw block of `bytes` bytes from `resource`, ready for work on `stream`.
 *
 * `alignment` is in bytes, a power of two; 0 and values below the resource's own count as the resource's own, at least
 * 256 [KINA-RESOURCE-18]. The block overlaps no live block [KINA-RESOURCE-16]; its contents are unspecified. Zero bytes
 * give a NULL pointer and count nowhere [KINA-RESOURCE-17]. Give it back with `runtime_memory_deallocate` and the same
 * bytes and alignment.
 *
 * INVALID_ARGUMENT  `out` or `resource` is NULL, `alignment` is no power of two, `bytes` overflows when rounded up
 *                   [KINA-RESOURCE-18, KINA-RESOURCE-21]
 * INVALID_HANDLE    `resource` or `stream` is not live
 * DEVICE_MISMATCH   `stream` is of another device [KINA-RESOURCE-70]
 * UNSUPPORTED       `stream` is another thread's per-thread stream, or captures unannounced [KINA-STREAM-14,
 *                   KINA-STREAM-41]
 * OUT_OF_MEMORY     the resource is exhausted, or cannot align so far [KINA-RESOURCE-19, KINA-RESOURCE-42,
 *                   KINA-RESOURCE-48]
 * DEVICE, DEVICE_LOST  the driver's or a callback's answer [KINA-RESOURCE-63]
 *
 * since: 1.0
 * feature: core
 * null: stream
 * owner: out produce, resource borrow, stream borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28 KINA-RESOURCE-18 KINA-RESOURCE-21; INVALID_HANDLE KINA-STATUS-26; DEVICE_MISMATCH KINA-RESOURCE-70; UNSUPPORTED KINA-STREAM-14 KINA-STREAM-41; OUT_OF_MEMORY KINA-STATUS-44 KINA-RESOURCE-42 KINA-RESOURCE-48 KINA-RESOURCE-19; DEVICE KINA-RESOURCE-63 KINA-DEVICE-23; DEVICE_LOST KINA-RESOURCE-63 KINA-DEVICE-21 KINA-STATUS-36
 * stream: host/enqueues
 * alloc: host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_memory_allocate(void **out, KinaResource resource, uint64_t bytes, uint64_t alignment, KinaStream stream);

/**
 * Gives a raw block back to the resource that it came from, once the work enqueued on `stream` until now has run.
 *
 * `bytes` and `alignment` are those of the allocation [KINA-RESOURCE-26]. NULL with zero bytes does nothing
 * [KINA-RESOURCE-17]. A refused call leaves the block live and the counters as they were [KINA-RESOURCE-27]. Beyond
 * these checks it does not fail: what cannot be given back counts as leaked [KINA-RESOURCE-29].
 *
 * INVALID_ARGUMENT  `resource` is NULL, `data` is no live block of this resource, `bytes` or `alignment` differ, or
 *                   `alignment` is no power of two [KINA-RESOURCE-18, KINA-RESOURCE-25, KINA-RESOURCE-26]
 * INVALID_HANDLE    `resource` or `stream` is not live
 * DEVICE_MISMATCH   `stream` is of another device [KINA-RESOURCE-70]
 *
 * since: 1.0
 * feature: core
 * null: data (bytes 0), stream
 * owner: resource borrow, data consume, stream borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28 KINA-RESOURCE-18 KINA-RESOURCE-25 KINA-RESOURCE-26; INVALID_HANDLE KINA-STATUS-26; DEVICE_MISMATCH KINA-RESOURCE-70
 * stream: host/enqueues
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_memory_deallocate(KinaResource resource, void *data, uint64_t bytes, uint64_t alignment, KinaStream stream);

/* ==== tensor ====
 *
 * Makes, shares and ends tensors. `KinaTensor` is 96 bytes for ever and begins with a `DLTensor`, so `&tensor->dl` is
 * the tensor for every consumer of DLPack. Its fields are for reading. A tensor with a handle is what the library's
 * own record says: changed fields are never acted on [KINA-TENSOR-6], and a copied struct names the same tensor
 * [KINA-TENSOR-5].
 *
 *     KinaTensor t = KINA_TENSOR_INIT;                    the empty tensor, all bytes 0: freeing it does nothing
 *     runtime_alloc(&t, shape, 2, KINA_DTYPE_F32, kDLCPU, 0, NULL);
 *     ...
 *     runtime_free(&t);                                   t is empty again
 *
 * Flags: OWNED (1) from `runtime_alloc` and operations; VIEW (2) from views; IMPORTED (4) from DLPack; BORROWED (8) on
 * the caller's memory; READ_ONLY (16) is refused as a target of writes; PEER (32) names another device's bytes. Views
 * have their source's flags with OWNED replaced by VIEW, aliases and upgrades have their source's [KINA-TENSOR-12,
 * KINA-TENSOR-13].
 *
 * Borrowed tensors. Compiled code may build a tensor on its own memory without a call: handle 0, flag BORROWED, magic,
 * `size_bytes`, and data, shape and strides that belong to the caller; NULL strides are compact row-major
 * [KINA-TENSOR-18 ... KINA-TENSOR-24]. `runtime_wrap` does the same with checks. Host bytes of a borrowed input have
 * been read when a call returns; borrowed device bytes must live until the stream has passed. The library keeps no
 * record of them: no failure, no order of its own.
 *
 * Ownership. A maker (`runtime_alloc`, `runtime_view`, `runtime_alias`, `runtime_wrap`) demands an empty `out` and
 * produces into it [KINA-TENSOR-27]; whatever has a handle is ended by `runtime_free`. Bytes live as long as any
 * tensor, export or peer handle on their storage, and go back to the resource that gave them after their last use.
 * Extents and strides count elements; offsets in the struct count bytes. All arithmetic on them is checked in 64 bits
 * [KINA-STATUS-25].
 *
 * NULL. `out`, `in`, `source` and `tensor` are never NULL [KINA-STATUS-23]. `shape` may be NULL with ndim 0; NULL
 * `strides` are compact; a NULL `stream` means the one that `runtime_stream_current` gives for the tensor's device.
 *
 * Threads. Any thread may call. Two structs with one handle are one tensor: reading calls may overlap; a call that
 * frees a tensor or fills a struct must not overlap another call on that tensor or struct.
 */

/**
 * Allocates a tensor: compact row-major, uninitialised, at least 256-byte aligned [KINA-TENSOR-35, KINA-TENSOR-36].
 *
 * The bytes come from the current resource of the device, on `stream` [KINA-TENSOR-37]; a tensor of zero bytes takes
 * none [KINA-TENSOR-38]. `shape` has `ndim` extents, each 0 or more; ndim 0 is one element. Contents are unspecified.
 *
 * INVALID_ARGUMENT   NULL pointer, `out` not empty, no such device id
 * INVALID_HANDLE     `stream` is not live
 * INVALID_SHAPE      ndim outside 0 ... 32, a negative extent, or more than 2^63 - 1 elements or bytes
 * DEVICE_MISMATCH    `stream` belongs to another device
 * UNSUPPORTED        dtype outside the table, a device type without devices, page-locked or managed memory without
 *                    feature cuda
 * OUT_OF_MEMORY      the resource is exhausted; the error record has the bytes that were asked for
 * DEVICE, DEVICE_LOST   the resource or its device refused
 *
 * since: 1.0
 * feature: core
 * null: shape (ndim 0), stream
 * owner: out produce, shape borrow, stream borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-27 KINA-TENSOR-39 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26; INVALID_SHAPE KINA-TENSOR-15 KINA-STATUS-25; DEVICE_MISMATCH KINA-TENSOR-40; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24 KINA-TENSOR-41 KINA-STREAM-14 KINA-STREAM-41; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-RESOURCE-63 KINA-DEVICE-23; DEVICE_LOST KINA-RESOURCE-63 KINA-DEVICE-21 KINA-STATUS-36
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_alloc(KinaTensor *out, const int64_t *shape, int32_t ndim, KinaDtype dtype, int32_t device_type, int32_t device_id, KinaStream stream);

/**
 * Ends a tensor and makes its struct empty [KINA-TENSOR-42].
 *
 * The last tensor on a storage gives the bytes back to the resource that allocated them, after their last use on any
 * stream [KINA-TENSOR-43]; while others live nothing is given back [KINA-TENSOR-44]. Of an import it lets the
 * producer's deleter run. An empty tensor is freed with success and without effect [KINA-TENSOR-1]; of a borrowed one
 * only the struct is emptied [KINA-TENSOR-45]. Copies of the struct are stale afterwards: freeing one is
 * INVALID_HANDLE, never a double free [KINA-TENSOR-4]. Nothing else makes it fail: no failure on the bytes, no flag,
 * no weak reference, no peer, no lost device [KINA-TENSOR-46, KINA-STATUS-30].
 *
 * INVALID_ARGUMENT   NULL pointer
 * INVALID_HANDLE     freed before, never made, or no tensor at all
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: tensor consume
 * errors: INVALID_ARGUMENT KINA-STATUS-23; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23
 * stream: host/enqueues
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_free(KinaTensor *tensor);

/**
 * Makes a tensor of another geometry on the bytes of `in`, without copying [KINA-TENSOR-47].
 *
 * `shape` and `strides` have `ndim` entries, in elements; NULL strides are compact row-major [KINA-TENSOR-48]; strides
 * may be negative or 0. Element 0 of the view lies `offset_elements`, which may be negative, from element 0 of `in`
 * [KINA-TENSOR-49]. Every byte that the view touches lies between the first and the last byte that `in` touches
 * [KINA-TENSOR-50]. `flags` is 0 or `KINA_FLAG_READ_ONLY` [KINA-TENSOR-51]; a view in which two indices share a byte
 * is READ_ONLY in any case [KINA-TENSOR-13]. The view keeps the storage alive and is freed by its own `runtime_free`,
 * in any order with `in` [KINA-TENSOR-52].
 *
 * INVALID_ARGUMENT   NULL pointer, `out` not empty, `in` empty, or a borrowed `in` with NULL or misaligned data or no
 *                    such device
 * INVALID_HANDLE     `in` is not live or no tensor
 * INVALID_SHAPE      ndim outside 0 ... 32, a negative extent, overflow, or bytes outside the hull of `in`
 * UNSUPPORTED        a flag bit other than READ_ONLY, or a borrowed `in` of unknown dtype or absent device
 * OUT_OF_MEMORY      no host memory or handle
 *
 * since: 1.0
 * feature: core
 * null: shape (ndim 0), strides
 * owner: out produce, in borrow, shape borrow, strides borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-27 KINA-TENSOR-39; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-50 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-TENSOR-51 KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_view(KinaTensor *out, const KinaTensor *in, const int64_t *shape, const int64_t *strides, int32_t ndim, int64_t offset_elements, uint32_t flags);

/**
 * Makes a second tensor of the same geometry and flags on the storage of `in` [KINA-TENSOR-53].
 *
 * The two are equals: each is freed by its own `runtime_free`, in any order, and the storage lives until both are
 * [KINA-TENSOR-52]. (A copied struct is not a second tensor but a second name of the first one.) The alias of a
 * borrowed tensor has a handle and its own arrays [KINA-TENSOR-54].
 *
 * INVALID_ARGUMENT   NULL pointer, `out` not empty, `in` empty, or a borrowed `in` with NULL or misaligned data or no
 *                    such device
 * INVALID_HANDLE     `in` is not live or no tensor
 * INVALID_SHAPE      a borrowed `in` whose geometry is not valid
 * UNSUPPORTED        a borrowed `in` of unknown dtype or absent device
 * OUT_OF_MEMORY      no host memory or handle
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-27; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_alias(KinaTensor *out, const KinaTensor *in);

/**
 * Makes a borrowed tensor on the caller's memory, checked and without allocating anything [KINA-TENSOR-57].
 *
 * `size_bytes` is how many bytes from `source->data` belong to the tensor; all its elements lie inside. The memory and
 * the two arrays stay the caller's and live as long as the tensor is used. `flags` is 0 or `KINA_FLAG_READ_ONLY`
 * [KINA-TENSOR-51]. `stream` is what the tensor says it was created on; NULL means the current one [KINA-TENSOR-58].
 *
 * INVALID_ARGUMENT   NULL pointer, `out` not empty, NULL data with elements, NULL shape, data not aligned to the
 *                    element, no such device id
 * INVALID_HANDLE     `stream` is not live
 * INVALID_SHAPE      ndim outside 0 ... 32, a negative extent, overflow, or elements outside `size_bytes`
 * DEVICE_MISMATCH    `stream` belongs to another device
 * UNSUPPORTED        dtype outside the table, a device type without devices, a flag bit other than READ_ONLY
 *
 * since: 1.0
 * feature: core
 * null: source.data (no elements), source.shape (ndim 0), source.strides, stream
 * owner: out produce, source borrow, source.data keep, source.shape keep, source.strides keep, stream borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-27; INVALID_HANDLE KINA-STATUS-26; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; DEVICE_MISMATCH KINA-TENSOR-40; UNSUPPORTED KINA-TENSOR-17 KINA-TENSOR-51 KINA-STATUS-24
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_wrap(KinaTensor *out, const DLTensor *source, uint64_t size_bytes, KinaStream stream, uint32_t flags);

/**
 * Waits until the last writer of the tensor's bytes has run, and reports its failure [KINA-TENSOR-61].
 *
 * When a byte under the tensor's elements is failed the answer is FAILED_INPUT and nothing is repaired
 * [KINA-TENSOR-62]; `runtime_failure_get` tells more. On a borrowed tensor, whose writers the library does not know,
 * it succeeds.
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     `tensor` is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed tensor of unknown dtype or absent device
 * FAILED_INPUT       a byte under its elements is failed
 * OUT_OF_MEMORY      no host memory for an event or a failure
 * DEVICE, DEVICE_LOST   the device refused
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: tensor borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24; FAILED_INPUT KINA-TENSOR-62; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: synchronises
 * alloc: host
 * thread: any
 */
KINA_API KinaStatus runtime_tensor_synchronize(const KinaTensor *tensor);

/**
 * Tells the library that foreign work, already enqueued on `stream`, reads or writes the tensor [KINA-TENSOR-63].
 *
 * Later work of the library waits for it where it must, and the bytes are not used again before it has run. `access`
 * is `KINA_ACCESS_READ` (1), `KINA_ACCESS_WRITE` (2) or `KINA_ACCESS_READ_WRITE` (3). No byte is failed or repaired by
 * it [KINA-TENSOR-65]; what gathers of a graph met in its replays becomes a pending check [KINA-INDEXING-25].
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     `tensor` or `stream` is not live
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * DEVICE_MISMATCH    `stream` belongs to another device
 * READ_ONLY          `access` writes and the tensor is READ_ONLY
 * UNSUPPORTED        a borrowed tensor, or an unknown `access`
 * OUT_OF_MEMORY      no host memory or device event
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST   the device refused
 *
 * since: 1.0
 * feature: core
 * null: stream
 * owner: tensor borrow, stream borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; DEVICE_MISMATCH KINA-TENSOR-40; READ_ONLY KINA-TENSOR-66; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24 KINA-TENSOR-64 KINA-VERSION-16 KINA-STREAM-14 KINA-STREAM-41; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; KERNEL_LAUNCH KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host/enqueues
 * alloc: host, device
 * thread: any
 */
KINA_API KinaStatus runtime_tensor_record_use(const KinaTensor *tensor, KinaStream stream, KinaAccess access);

/* ==== storage ====
 *
 * What tensors share. A *storage* is one reserved allocation with an id that is never used again; tensors, views,
 * aliases, upgrades, opened peers and DLPack exports on it see the same bytes and the same failures. The *hull* of a
 * tensor is the range from the first to one past the last byte that its elements touch; a tensor without elements has
 * an empty one.
 *
 * Failures travel with bytes. A failed or skipped write marks the bytes that it should have written; an operation that
 * would read a marked byte does not run, answers FAILED_INPUT, and marks its own `out` with the same failure
 * [KINA-STORAGE-28]. A mark goes when its byte is written successfully, or by `runtime_failure_clear`; nothing else
 * repairs [KINA-STORAGE-26]. A strided write repairs the bytes that it wrote and not those between them
 * [KINA-STORAGE-23]. Freeing the storage ends all its marks [KINA-STORAGE-36].
 *
 * What a device finds out late, behind the call, is a *pending check*: it travels from inputs to outputs and stops
 * nothing, until the host sees bytes that depend on it. Then it is gone, or a failure of all bytes that were written
 * from what it concerns, with the operation that found it as root [KINA-STORAGE-41, KINA-STORAGE-59].
 *
 * Ownership. Weak references and peer handles are ended by their `*_release`. A weak reference keeps nothing
 * [KINA-STORAGE-44]; a peer handle keeps the storage and its contents [KINA-STORAGE-50]. Tensors made by
 * `runtime_weak_upgrade` and `runtime_peer_open` are ended by `runtime_free`, and both need an empty `out`
 * [KINA-TENSOR-27].
 *
 * NULL. Only `message` of `runtime_failure_set` may be NULL. Every tensor may be borrowed where a comment does not say
 * otherwise, and is then checked like an input of an operation [KINA-TENSOR-18 ... KINA-TENSOR-23].
 *
 * Threads. Any thread may call, on the same storage too; an upgrade is atomic against the last release
 * [KINA-STORAGE-47].
 */

/**
 * Says whether two tensors have bytes in common.
 *
 * `KINA_OVERLAP_DISJOINT` (0): no common byte, an empty hull, or another device [KINA-STORAGE-1]; hulls that only
 * touch are disjoint. `KINA_OVERLAP_SAME` (1): equal hulls [KINA-STORAGE-2]. `KINA_OVERLAP_PARTIAL` (2): anything else
 * [KINA-STORAGE-3]. Hulls are compared by address, so that foreign memory is seen [KINA-STORAGE-4]; strided tensors
 * that interleave without a common byte are still PARTIAL.
 *
 * INVALID_ARGUMENT   NULL pointer, a tensor is empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     a tensor is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed tensor of unknown dtype or absent device
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, a borrow, b borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_overlap(KinaOverlap *out, const KinaTensor *a, const KinaTensor *b);

/**
 * Says whether the tensor may be changed in place without anyone noticing: 1 or 0.
 *
 * 1 when it is the only live tensor on its storage [KINA-STORAGE-6]. Views, aliases and exports count; weak
 * references, peer handles and work in flight do not [KINA-STORAGE-7, KINA-STORAGE-8]. Foreign memory is never
 * exclusive, unless the import came as a copy [KINA-STORAGE-9].
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     `tensor` is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed tensor of unknown dtype or absent device
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, tensor borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_is_exclusive(int32_t *out, const KinaTensor *tensor);

/**
 * Gives the key of the tensor's bytes: storage id, start and end of the hull.
 *
 * Two tensors have equal keys exactly when they have the same storage and the same hull; ordered by storage, start,
 * end, keys sort and de-duplicate write sets [KINA-STORAGE-10, KINA-STORAGE-11]. Foreign memory has storage 0 and
 * addresses [KINA-STORAGE-13]. The struct is fixed for ever and has no `struct_size`.
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     `tensor` is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed tensor of unknown dtype or absent device
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, tensor borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_byte_range(KinaByteRange *out, const KinaTensor *tensor);

/**
 * Marks the bytes of a tensor as failed, with a new failure or with one that exists.
 *
 * With `cause` 0 a failure is made of `status` and a copy of `message` (NULL is ""), and `failure` receives its id
 * [KINA-STORAGE-14, KINA-STORAGE-19]. Else `cause` is the id of a failure, which is extended to these bytes; `status`
 * and `message` are ignored [KINA-STORAGE-16]. The newer failure takes over bytes that carried another
 * [KINA-STORAGE-21]; doing it twice changes nothing [KINA-STORAGE-22]. The contents are not touched, so READ_ONLY
 * tensors may be marked [KINA-STORAGE-38].
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty or borrowed with NULL or misaligned data or no such device, unknown
 *                    `cause`, `status` is SUCCESS
 * INVALID_HANDLE     `tensor` is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed tensor, or a `status` that the table has not
 * OUT_OF_MEMORY      no host memory; nothing is marked
 *
 * since: 1.0
 * feature: core
 * null: message
 * owner: failure produce, tensor borrow, message borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-STORAGE-17 KINA-STORAGE-18; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24 KINA-STORAGE-18 KINA-STORAGE-39; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: host
 * thread: any
 */
KINA_API KinaStatus runtime_failure_set(uint64_t *failure, const KinaTensor *tensor, uint64_t cause, KinaStatus status, const char *message);

/**
 * Reports the failure on the lowest failed byte under the tensor's elements, or that there is none.
 *
 * `out->struct_size` is set by the caller. `status`, `failure`, `function` and `message` are those of the root
 * [KINA-STORAGE-31]; `range` is the run of bytes that carry it, from that byte on and inside the hull
 * [KINA-STORAGE-32]; `skipped` names the functions that it kept from running on its way here, or that handed it on
 * before it was found [KINA-STORAGE-61], newest first, at most 16, and `skipped_total` counts them all
 * [KINA-STORAGE-33]. Without a failure `status` is `KINA_SUCCESS` and all else 0. Strings are valid until this thread's
 * next `runtime_failure_get` [KINA-STORAGE-34]. Reporting repairs nothing, and waits for pending checks
 * [KINA-STORAGE-59].
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     `tensor` is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed tensor of unknown dtype or absent device
 * VERSION            `struct_size` too small, above the limit, or no multiple of 8
 * OUT_OF_MEMORY      no host memory for what a device found
 * DEVICE, DEVICE_LOST   the driver refused to wait for it
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, tensor borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24; VERSION KINA-VERSION-11 KINA-VERSION-12; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: synchronises
 * alloc: host
 * thread: any
 */
KINA_API KinaStatus runtime_failure_get(KinaFailureInfo *out, const KinaTensor *tensor);

/**
 * Declares the bytes under the tensor's elements good again, without writing them.
 *
 * `was_failed` receives 1 if one of them was failed, else 0; other bytes of the storage keep their state
 * [KINA-STORAGE-25]. Pending checks are waited for [KINA-STORAGE-59].
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     `tensor` is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed tensor of unknown dtype or absent device
 * OUT_OF_MEMORY      no host memory to split a range; nothing is cleared
 * DEVICE, DEVICE_LOST   the driver refused to wait for pending checks; nothing is cleared
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: was_failed produce, tensor borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: synchronises
 * alloc: host
 * thread: any
 */
KINA_API KinaStatus runtime_failure_clear(int32_t *was_failed, const KinaTensor *tensor);

/**
 * Makes a weak reference: it names the tensor's storage and geometry and keeps nothing alive [KINA-STORAGE-44].
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     `tensor` is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed tensor
 * OUT_OF_MEMORY      no host memory or handle
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, tensor borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24 KINA-STORAGE-49; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_weak_create(KinaWeak *out, const KinaTensor *tensor);

/**
 * Makes a tensor of what a weak reference names, if its storage is still alive.
 *
 * The tensor has the shape, strides, offset, dtype and flags of the one that the reference was made of
 * [KINA-STORAGE-45], and is ended by `runtime_free`. It succeeds while a tensor, an export or a peer handle keeps the
 * storage [KINA-STORAGE-46], atomically against the last of them to go [KINA-STORAGE-47].
 *
 * INVALID_ARGUMENT   NULL pointer or handle, `out` not empty
 * INVALID_HANDLE     `weak` is not live, its storage is gone
 * OUT_OF_MEMORY      no host memory or handle
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, weak borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-28 KINA-TENSOR-27; INVALID_HANDLE KINA-STATUS-26 KINA-STORAGE-46; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_weak_upgrade(KinaTensor *out, KinaWeak weak);

/**
 * Ends a weak reference, whether its storage lives or not [KINA-STORAGE-48].
 *
 * INVALID_ARGUMENT   NULL handle
 * INVALID_HANDLE     `weak` is not live
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: weak consume
 * errors: INVALID_ARGUMENT KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26
 * stream: host
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_weak_release(KinaWeak weak);

/**
 * Makes a peer handle: a pin on the tensor's storage that other devices, or this one, can open [KINA-STORAGE-50].
 *
 * INVALID_ARGUMENT   NULL pointer, `tensor` empty, or borrowed with NULL or misaligned data or no such device
 * INVALID_HANDLE     `tensor` is not live or no tensor
 * INVALID_SHAPE      a borrowed tensor whose geometry is not valid
 * UNSUPPORTED        a borrowed or PEER tensor, or feature peer is absent
 * OUT_OF_MEMORY      no host memory or handle
 *
 * since: 1.0
 * feature: peer
 * null: none
 * owner: out produce, tensor borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; UNSUPPORTED KINA-TENSOR-17 KINA-STATUS-24 KINA-STORAGE-56 KINA-VERSION-5; OUT_OF_MEMORY KINA-STATUS-44 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_peer_share(KinaPeer *out, const KinaTensor *tensor);

/**
 * Opens what a peer handle shares as a tensor on the given device.
 *
 * On the owner's device it is an ordinary alias of the shared tensor [KINA-STORAGE-51]; on another device that can
 * reach it, a tensor with flags VIEW and PEER on the owner's bytes [KINA-STORAGE-52]. It keeps the storage by itself
 * [KINA-STORAGE-54] and is ended by `runtime_free`. Nothing orders accesses of different devices except what callers
 * ask for [KINA-STORAGE-57]; failures of either side are seen by both [KINA-STORAGE-58].
 *
 * INVALID_ARGUMENT   NULL pointer or handle, `out` not empty, no such device id
 * INVALID_HANDLE     `peer` is not live
 * UNSUPPORTED        no such device type, the device cannot reach the owner's, or feature peer is absent
 * OUT_OF_MEMORY      no host memory or handle
 * DEVICE, DEVICE_LOST   the device refused
 *
 * since: 1.0
 * feature: peer
 * null: none
 * owner: out produce, peer borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-STATUS-28 KINA-TENSOR-27; INVALID_HANDLE KINA-STATUS-26; UNSUPPORTED KINA-STATUS-24 KINA-STORAGE-53 KINA-VERSION-5; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host
 * alloc: handle, host
 * thread: any
 */
KINA_API KinaStatus runtime_peer_open(KinaTensor *out, KinaPeer peer, int32_t device_type, int32_t device_id);

/**
 * Ends a peer handle; tensors opened from it stay [KINA-STORAGE-54, KINA-STORAGE-55].
 *
 * INVALID_ARGUMENT   NULL handle
 * INVALID_HANDLE     `peer` is not live
 *
 * since: 1.0
 * feature: peer
 * null: none
 * owner: peer consume
 * errors: INVALID_ARGUMENT KINA-STATUS-28; INVALID_HANDLE KINA-STATUS-26
 * stream: host/enqueues
 * alloc: none
 * thread: any
 */
KINA_API KinaStatus runtime_peer_release(KinaPeer peer);

/* ==== dlpack ====
 *
 * Tensors to and from other frameworks without a copy, through DLPack 1.x (versioned struct) and its older form (legacy
 * struct).
 *
 * Ownership. Export consumes the tensor on success; from then on the struct owns what the tensor named, until its
 * deleter is called, once, by the consumer [KINA-DLPACK-5, KINA-DLPACK-12]. Import takes ownership of the struct on
 * success alone: after a failure the caller still owns it and its deleter has not run [KINA-DLPACK-27]. The library
 * calls the deleter of an imported struct once, when the last tensor, view, alias, export or peer handle on it has
 * ended [KINA-DLPACK-28]; a NULL deleter is not called [KINA-DLPACK-29].
 *
 * Threads. Deleters of exports may be called from any thread, after every other use of the library, and after dlclose
 * [KINA-DLPACK-13, KINA-STATUS-34]. Deleters of imports are called on the thread whose call ended the last hold,
 * outside all locks [KINA-DLPACK-30].
 *
 * NULL. `params` may be NULL for defaults; `out`, `tensor` and `managed` may not.
 *
 * Layout. Exports fold the offset into `data` (`byte_offset` is 0), always carry strides for rank > 0, counted in
 * elements, and none for rank 0 [KINA-DLPACK-7 to KINA-DLPACK-10]. Imports accept NULL strides (compact row-major), any
 * `byte_offset`, negative and zero strides, any stride on an axis of extent 1, and any `data` where there are no
 * elements [KINA-DLPACK-34 to KINA-DLPACK-39, KINA-DLPACK-46, KINA-DLPACK-47].
 *
 * Devices. kDLCPU 1, kDLCUDAHost 3 and kDLCUDAManaged 13 are readable by the host and imported by every build; kDLCUDA
 * 2 and kDLExtDev 12 (simulated) where such a device exists [KINA-DLPACK-43]. Ids of types 1, 3 and 13 count as 0
 * [KINA-DLPACK-44].
 *
 * KinaDlpackParams: `flags` KINA_DLPACK_COPY (export only), KINA_DLPACK_READ_ONLY; `stream` the consumer's stream on
 * export, the producer's on import, NULL for no order beyond the host's [KINA-DLPACK-24, KINA-DLPACK-25,
 * KINA-DLPACK-51]; `max_major`, `max_minor` the newest DLPack version that the consumer takes, `max_major` 0 for no
 * demand, and in the legacy pair always 0 [KINA-DLPACK-1].
 */

/**
 * Exports a tensor as DLPack's versioned struct, stamped 1.0, and consumes it.
 *
 * The struct shares the tensor's bytes; with KINA_DLPACK_COPY it names a fresh compact copy instead and says IS_COPIED
 * [KINA-DLPACK-6, KINA-DLPACK-18, KINA-DLPACK-19]. It says READ_ONLY if the tensor is read-only and not copied, or if
 * asked to [KINA-DLPACK-17]. Other tensors on the storage stay live and see what the consumer writes [KINA-DLPACK-14];
 * until the deleter runs the export counts as a live tensor for `runtime_is_exclusive`.
 *
 * On success `*tensor` is the empty tensor. On failure it is as it was and `*out` is not written.
 *
 * INVALID_ARGUMENT  `out` or `tensor` is NULL, or the tensor is empty
 * INVALID_HANDLE    the tensor or `params->stream` is not live
 * INVALID_SHAPE     a borrowed struct with a rank, extent or hull that cannot be
 * DEVICE_MISMATCH   `params->stream` is of another device [KINA-DLPACK-52]
 * UNSUPPORTED       the tensor is borrowed, or a PEER tensor without COPY; unknown flag [KINA-DLPACK-21,
 *                   KINA-DLPACK-22]
 * VERSION           `max_major` is neither 0 nor 1, or `struct_size` is wrong [KINA-DLPACK-1]
 * FAILED_INPUT      bytes under the tensor's elements carry a failure [KINA-DLPACK-23]
 * OUT_OF_MEMORY     the struct, or with COPY its bytes, could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device or the resource refused, or the device is lost
 *
 * since: 1.0
 * feature: dlpack
 * null: params, params.stream
 * owner: out produce, tensor consume, params borrow, params.stream keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; DEVICE_MISMATCH KINA-DLPACK-52; UNSUPPORTED KINA-DLPACK-21 KINA-DLPACK-22 KINA-STATUS-24 KINA-TENSOR-17 KINA-VERSION-5 KINA-VERSION-16 KINA-STREAM-14 KINA-STREAM-41; VERSION KINA-DLPACK-1 KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13; FAILED_INPUT KINA-DLPACK-23; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DLPACK-24 KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_to_dlpack(struct DLManagedTensorVersioned **out, KinaTensor *tensor, const KinaDlpackParams *params);

/**
 * Imports DLPack's versioned struct: makes `*out` a tensor on the producer's own bytes and takes ownership of the
 * struct.
 *
 * A struct of another major version is refused and nothing but `version` is read; the caller then calls its deleter
 * [KINA-DLPACK-32]. Every minor version is accepted [KINA-DLPACK-33]. Shape and strides are copied; the struct is never
 * written [KINA-DLPACK-31]. The tensor has flag IMPORTED, and READ_ONLY if the struct says so, if KINA_DLPACK_READ_ONLY
 * is asked for, or if two indices share a byte [KINA-DLPACK-26, KINA-DLPACK-48]. Unknown flag bits of the struct are
 * ignored [KINA-DLPACK-49]. The producer's memory is foreign: the library adds no order between two imports of one
 * buffer.
 *
 * INVALID_ARGUMENT  `out` or `managed` is NULL, `out` is not empty, or the device id is outside the devices of its type
 * INVALID_HANDLE    `params->stream` is not live
 * INVALID_SHAPE     rank, extents, or overflow of count, bytes, span or addresses [KINA-DLPACK-40]
 * DLPACK            NULL data with elements, NULL shape, misaligned data [KINA-DLPACK-36, KINA-DLPACK-38,
 *                   KINA-DLPACK-41]
 * DEVICE_MISMATCH   `params->stream` is of another device [KINA-DLPACK-2]
 * UNSUPPORTED       dtype, lanes, device type; KINA_DLPACK_COPY; unknown flag [KINA-DLPACK-4, KINA-DLPACK-42,
 *                   KINA-DLPACK-43]
 * VERSION           the struct's major version, `max_major`, or `struct_size` [KINA-DLPACK-1, KINA-DLPACK-32]
 * OUT_OF_MEMORY     no handle or no host memory for the record
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: dlpack
 * null: params, params.stream
 * owner: out produce, managed consume, params borrow, params.stream keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-27; INVALID_HANDLE KINA-STATUS-26; INVALID_SHAPE KINA-TENSOR-15 KINA-DLPACK-40; DLPACK KINA-DLPACK-36 KINA-DLPACK-38 KINA-DLPACK-41; DEVICE_MISMATCH KINA-DLPACK-2; UNSUPPORTED KINA-DLPACK-4 KINA-DLPACK-42 KINA-DLPACK-43 KINA-VERSION-5 KINA-VERSION-16 KINA-STREAM-14 KINA-STREAM-41; VERSION KINA-DLPACK-1 KINA-DLPACK-32 KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DLPACK-51 KINA-DEVICE-23 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 injected
 * stream: host/enqueues
 * alloc: handle, host, device
 * thread: any
 */
KINA_API KinaStatus runtime_from_dlpack(KinaTensor *out, struct DLManagedTensorVersioned *managed, const KinaDlpackParams *params);

/**
 * Exports a tensor as DLPack's legacy struct, for consumers that know no other, and consumes it.
 *
 * As `runtime_to_dlpack`, but the legacy struct has neither version nor flags: what would be read-only is refused
 * [KINA-DLPACK-20], and a copy cannot say that it is one. `max_major` must be 0 [KINA-DLPACK-1].
 *
 * INVALID_ARGUMENT  `out` or `tensor` is NULL, or the tensor is empty
 * INVALID_HANDLE    the tensor or `params->stream` is not live
 * INVALID_SHAPE     a borrowed struct with a rank, extent or hull that cannot be
 * DEVICE_MISMATCH   `params->stream` is of another device [KINA-DLPACK-52]
 * READ_ONLY         the tensor is read-only and COPY is not asked for, or KINA_DLPACK_READ_ONLY is [KINA-DLPACK-20]
 * UNSUPPORTED       the tensor is borrowed, or a PEER tensor without COPY; unknown flag [KINA-DLPACK-21,
 *                   KINA-DLPACK-22]
 * VERSION           `max_major` is not 0, or `struct_size` is wrong [KINA-DLPACK-1]
 * FAILED_INPUT      bytes under the tensor's elements carry a failure [KINA-DLPACK-23]
 * OUT_OF_MEMORY     the struct, or with COPY its bytes, could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device or the resource refused, or the device is lost
 *
 * since: 1.0
 * feature: dlpack
 * null: params, params.stream
 * owner: out produce, tensor consume, params borrow, params.stream keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-TENSOR-15 KINA-TENSOR-21 KINA-STATUS-25; DEVICE_MISMATCH KINA-DLPACK-52; READ_ONLY KINA-DLPACK-20; UNSUPPORTED KINA-DLPACK-21 KINA-DLPACK-22 KINA-STATUS-24 KINA-TENSOR-17 KINA-VERSION-5 KINA-VERSION-16 KINA-STREAM-14 KINA-STREAM-41; VERSION KINA-DLPACK-1 KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13; FAILED_INPUT KINA-DLPACK-23; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DLPACK-24 KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_to_dlpack_legacy(struct DLManagedTensor **out, KinaTensor *tensor, const KinaDlpackParams *params);

/**
 * Imports DLPack's legacy struct: makes `*out` a tensor on the producer's own bytes and takes ownership of the struct.
 *
 * As `runtime_from_dlpack`, without version and flags: the tensor is writable unless KINA_DLPACK_READ_ONLY is asked for
 * or two indices share a byte [KINA-DLPACK-48], since producers refuse to export read-only data this way. `max_major`
 * must be 0 [KINA-DLPACK-1].
 *
 * INVALID_ARGUMENT  `out` or `managed` is NULL, `out` is not empty, or the device id is outside the devices of its type
 * INVALID_HANDLE    `params->stream` is not live
 * INVALID_SHAPE     rank, extents, or overflow of count, bytes, span or addresses [KINA-DLPACK-40]
 * DLPACK            NULL data with elements, NULL shape, misaligned data [KINA-DLPACK-36, KINA-DLPACK-38,
 *                   KINA-DLPACK-41]
 * DEVICE_MISMATCH   `params->stream` is of another device [KINA-DLPACK-2]
 * UNSUPPORTED       dtype, lanes, device type; KINA_DLPACK_COPY; unknown flag [KINA-DLPACK-4, KINA-DLPACK-42,
 *                   KINA-DLPACK-43]
 * VERSION           `max_major` is not 0, or `struct_size` is wrong [KINA-DLPACK-1]
 * OUT_OF_MEMORY     no handle or no host memory for the record
 * DEVICE, DEVICE_LOST  the driver refused, or the device is lost
 *
 * since: 1.0
 * feature: dlpack
 * null: params, params.stream
 * owner: out produce, managed consume, params borrow, params.stream keep
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-27; INVALID_HANDLE KINA-STATUS-26; INVALID_SHAPE KINA-TENSOR-15 KINA-DLPACK-40; DLPACK KINA-DLPACK-36 KINA-DLPACK-38 KINA-DLPACK-41; DEVICE_MISMATCH KINA-DLPACK-2; UNSUPPORTED KINA-DLPACK-4 KINA-DLPACK-42 KINA-DLPACK-43 KINA-VERSION-5 KINA-VERSION-16 KINA-STREAM-14 KINA-STREAM-41; VERSION KINA-DLPACK-1 KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DLPACK-51 KINA-DEVICE-23 injected; DEVICE_LOST KINA-STATUS-36 KINA-DEVICE-21 injected
 * stream: host/enqueues
 * alloc: handle, host, device
 * thread: any
 */
KINA_API KinaStatus runtime_from_dlpack_legacy(KinaTensor *out, struct DLManagedTensor *managed, const KinaDlpackParams *params);

/* ==== movement ====
 *
 * Copies of a tensor, on one device and between devices. Bits move as they are: NaN payloads, signed zeros, every dtype
 * of the table, any strides [KINA-MOVEMENT-1, KINA-MOVEMENT-8, KINA-MOVEMENT-9].
 *
 * Ownership. `in` is borrowed: it is read and stays the caller's. An empty `out` is produced: a tensor with bytes of
 * its own, compact row-major, flag OWNED alone, from the current resource of the device that it is made on
 * [KINA-MOVEMENT-6, KINA-MOVEMENT-7, KINA-MOVEMENT-15]. A non-empty `out` is written.
 *
 * NULL. No pointer may be NULL.
 *
 * Devices. The operands may lie on different devices [KINA-MOVEMENT-11]. Copies to kDLCPU return with the bytes in
 * place [KINA-MOVEMENT-14]; other copies are queued on the stream of the accelerator's end, the target's where both
 * ends are accelerators [KINA-MOVEMENT-17].
 *
 * Threads. Any thread; copies that read one tensor may overlap.
 */

/**
 * Copies `in` to device `device_id` of the default accelerator type: CUDA where it has devices, else the simulated one
 * [KINA-MOVEMENT-3].
 *
 * `out` is empty, or lies on that device and has the shape and dtype of `in`.
 *
 * INVALID_ARGUMENT  a pointer is NULL, `in` is empty, or `device_id` is none of the accelerator's
 * INVALID_HANDLE    `in` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     `out` has another shape than `in`; a borrowed struct that cannot be
 * INVALID_DTYPE     `out` has another dtype than `in`
 * DEVICE_MISMATCH   `out` is on another device, the host included [KINA-MOVEMENT-5, KINA-MOVEMENT-10]
 * UNSUPPORTED       neither accelerator type has devices [KINA-MOVEMENT-4]
 * OVERLAP           `out` shares bytes with `in` [KINA-MOVEMENT-12]
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under `in`'s elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26 KINA-MOVEMENT-5 KINA-MOVEMENT-10; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-MOVEMENT-4 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-MOVEMENT-12; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_copy_to_device(KinaTensor *out, const KinaTensor *in, int32_t device_id);

/**
 * Copies `in` to the host and returns with the bytes in place [KINA-MOVEMENT-2, KINA-MOVEMENT-14].
 *
 * `out` is empty, or lies on kDLCPU and has the shape and dtype of `in`. A tensor of the host is copied too: `out`
 * never shares bytes with `in`.
 *
 * INVALID_ARGUMENT  a pointer is NULL, or `in` is empty
 * INVALID_HANDLE    `in` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     `out` has another shape than `in`; a borrowed struct that cannot be
 * INVALID_DTYPE     `out` has another dtype than `in`
 * DEVICE_MISMATCH   `out` is not on kDLCPU [KINA-MOVEMENT-10]
 * UNSUPPORTED       a borrowed struct of a dtype or device type that is not known
 * OVERLAP           `out` shares bytes with `in` [KINA-MOVEMENT-12]
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under `in`'s elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26 KINA-MOVEMENT-10; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-MOVEMENT-12; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: synchronises
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_copy_to_host(KinaTensor *out, const KinaTensor *in);

/**
 * Copies `in` to the device (`device_type`, `device_id`), which may be its own.
 *
 * `out` is empty, or lies on that device and has the shape and dtype of `in`. A copy to kDLCUDAHost is a read-back that
 * does not wait: its bytes are in place after a synchronise [KINA-MOVEMENT-16].
 *
 * INVALID_ARGUMENT  a pointer is NULL, `in` is empty, or `device_id` is none of `device_type`'s
 * INVALID_HANDLE    `in` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     `out` has another shape than `in`; a borrowed struct that cannot be
 * INVALID_DTYPE     `out` has another dtype than `in`
 * DEVICE_MISMATCH   `out` is not on the device asked for [KINA-MOVEMENT-10]
 * UNSUPPORTED       `device_type` has no devices; a borrowed struct of an unknown dtype or device type
 * OVERLAP           `out` shares bytes with `in` [KINA-MOVEMENT-12]
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under `in`'s elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26 KINA-MOVEMENT-10; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-MOVEMENT-12; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_copy(KinaTensor *out, const KinaTensor *in, int32_t device_type, int32_t device_id);

/* ==== elementwise ====
 *
 * One result element per index. `gpu_` marks what a compiler does not inline; the call runs where the operands live,
 * the host included.
 *
 * Dtypes. Which op takes which dtype, and how exact it is, stands in spec/tables/ops.toml; there is no promotion, and a
 * pair that the table has not is UNSUPPORTED [KINA-ELEMENTWISE-7, KINA-ELEMENTWISE-9]. Integers wrap, division by zero
 * is 0, NaN propagates, denormals and signed zeros are kept: each value that C leaves open is fixed by a clause of
 * spec/elementwise.md, and is the same on every device.
 *
 * Ownership. Inputs are borrowed: read, and still the caller's. An empty `out` is produced: compact row-major, flag
 * OWNED [KINA-TENSOR-25]. A non-empty `out` is written, whatever its strides; it may be exactly an input of its element
 * size, and may not share bytes with one in any other way [KINA-TENSOR-29, KINA-TENSOR-30, KINA-ELEMENTWISE-13].
 *
 * NULL. No pointer may be NULL.
 *
 * Threads. Any thread; calls that read one tensor may overlap.
 */

/**
 * Writes one value into every element of `tensor`.
 *
 * `value` points to `value_bytes` bytes, one element of the tensor's dtype in its memory form, with no demand on
 * alignment; they are written bit by bit [KINA-ELEMENTWISE-1 to KINA-ELEMENTWISE-4]. The bytes written lose any failure
 * they carried.
 *
 * INVALID_ARGUMENT  a pointer is NULL, `tensor` is empty, or `value_bytes` is not its element's size
 *                   [KINA-ELEMENTWISE-2]
 * INVALID_HANDLE    `tensor` is no live tensor
 * INVALID_SHAPE     a borrowed struct that cannot be
 * UNSUPPORTED       a borrowed struct of a dtype or device type that is not known
 * READ_ONLY         `tensor` is read-only
 * OUT_OF_MEMORY     no host memory for an event or a failure
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: tensor borrow, value borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-ELEMENTWISE-2; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; READ_ONLY KINA-TENSOR-14; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 injected
 * stream: host/enqueues
 * alloc: host, device
 * thread: any
 */
KINA_API KinaStatus runtime_fill(KinaTensor *tensor, const void *value, uint64_t value_bytes);

/**
 * Computes out[i] = op(in[i]).
 *
 * The result has the shape of `in`, and its dtype or bool as the op table says [KINA-ELEMENTWISE-8].
 *
 * INVALID_ARGUMENT  a pointer is NULL, or `in` is empty
 * INVALID_HANDLE    `in` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     `out` has another shape than the result; a borrowed struct that cannot be
 * INVALID_DTYPE     `out` has another dtype than the result
 * DEVICE_MISMATCH   `out` is on another device than the result
 * UNSUPPORTED       `op` is no unary op, or has no such dtype [KINA-ELEMENTWISE-6, KINA-ELEMENTWISE-7]
 * OVERLAP           `out` shares bytes with `in` and is not exactly `in`
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under `in`'s elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-ELEMENTWISE-6 KINA-ELEMENTWISE-7 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-ELEMENTWISE-13; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_unary(KinaTensor *out, const KinaTensor *in, KinaUnaryOp op);

/**
 * Computes out[i] = op(a[i], b[i]), the operands broadcast against each other as in NumPy [KINA-ELEMENTWISE-25].
 *
 * `a` and `b` have one dtype [KINA-ELEMENTWISE-27]. The result has the broadcast shape, and that dtype or bool as the
 * op table says [KINA-ELEMENTWISE-8]. A 0-dim operand on the host serves as a scalar on any device
 * [KINA-ELEMENTWISE-28].
 *
 * INVALID_ARGUMENT  a pointer is NULL, or `a` or `b` is empty
 * INVALID_HANDLE    `a`, `b` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     the shapes do not broadcast, or `out` has not the result's [KINA-ELEMENTWISE-26]
 * INVALID_DTYPE     `a` and `b` differ, or `out` has another dtype than the result [KINA-ELEMENTWISE-27]
 * DEVICE_MISMATCH   `a` and `b`, or `out` and the result, are on different devices
 * UNSUPPORTED       `op` is no binary op, or has no such dtype [KINA-ELEMENTWISE-6, KINA-ELEMENTWISE-7]
 * OVERLAP           `out` shares bytes with an input and is not exactly that input [KINA-ELEMENTWISE-29]
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under an input's elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, a borrow, b borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-ELEMENTWISE-26; INVALID_DTYPE KINA-TENSOR-26 KINA-ELEMENTWISE-27; DEVICE_MISMATCH KINA-TENSOR-26 KINA-TENSOR-31 KINA-ELEMENTWISE-28; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-ELEMENTWISE-6 KINA-ELEMENTWISE-7 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-ELEMENTWISE-13 KINA-ELEMENTWISE-29; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_binary(KinaTensor *out, const KinaTensor *a, const KinaTensor *b, KinaBinaryOp op);

/**
 * Converts `in` to dtype `target`, element by element.
 *
 * bool, integers, floats and both f8 dtypes, any to any; f8 needs feature float8 [KINA-ELEMENTWISE-41,
 * KINA-ELEMENTWISE-49]. Integers wrap, floats saturate on their way to integers and round to nearest even on their way
 * to floats; NaN becomes 0 in integers [KINA-ELEMENTWISE-43 to KINA-ELEMENTWISE-48]. The result has bytes of its own,
 * also where `target` is the dtype of `in` [KINA-ELEMENTWISE-42].
 *
 * INVALID_ARGUMENT  a pointer is NULL, or `in` is empty
 * INVALID_HANDLE    `in` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     `out` has another shape than the result; a borrowed struct that cannot be
 * INVALID_DTYPE     `out` is not of dtype `target` [KINA-ELEMENTWISE-50]
 * DEVICE_MISMATCH   `out` is on another device than the result
 * UNSUPPORTED       no cast between these dtypes, or `target` is no dtype [KINA-ELEMENTWISE-41]
 * OVERLAP           `out` shares bytes with `in` and is not exactly `in`
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under `in`'s elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26; INVALID_DTYPE KINA-TENSOR-26 KINA-ELEMENTWISE-50; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-ELEMENTWISE-41 KINA-ELEMENTWISE-49 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-ELEMENTWISE-13; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_cast(KinaTensor *out, const KinaTensor *in, KinaDtype target);

/* ==== reduction ====
 *
 * Results over one axis, or over all of them: KINA_AXIS_ALL. Axes count from 0, or from the end where negative
 * [KINA-REDUCTION-1].
 *
 * Dtypes and accuracy stand in spec/tables/ops.toml: integer sums keep their dtype and wrap, f16 and bf16 are
 * accumulated in f32 or finer [KINA-REDUCTION-9, KINA-REDUCTION-10]. The same input gives the same bits on every run on
 * one device [KINA-REDUCTION-20].
 *
 * Ownership. `in` is borrowed: read, and still the caller's. An empty `out` is produced: compact row-major, flag OWNED
 * [KINA-TENSOR-25]. A non-empty `out` is written, whatever its strides; it may share no byte with `in`.
 *
 * NULL. No pointer may be NULL.
 *
 * Threads. Any thread; calls that read one tensor may overlap.
 */

/**
 * Reduces `in` over `axis` with `op`: sum, mean, prod, max, min, argmax, argmin, any or all.
 *
 * `op` may carry KINA_REDUCE_KEEPDIMS: reduced axes then stay with extent 1, else they go [KINA-REDUCTION-4]. The
 * result's dtype is that of `in`; i64 for argmax and argmin, bool for any and all. The first of equal elements wins in
 * argmax and argmin, and a NaN before all [KINA-REDUCTION-13, KINA-REDUCTION-14]. Over no elements sum is 0, prod 1,
 * any false, all true, mean NaN [KINA-REDUCTION-17].
 *
 * INVALID_ARGUMENT  a pointer is NULL, or `in` is empty
 * INVALID_HANDLE    `in` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     `axis` is none of `in`'s; `out` has not the result's shape; a maximum over nothing
 *                   [KINA-REDUCTION-2, KINA-REDUCTION-18]
 * INVALID_DTYPE     `out` has another dtype than the result
 * DEVICE_MISMATCH   `out` is on another device than the result
 * UNSUPPORTED       `op` is no reduce op, or has no such dtype [KINA-REDUCTION-7, KINA-REDUCTION-8]
 * OVERLAP           `out` shares bytes with `in`
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under `in`'s elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-REDUCTION-2 KINA-REDUCTION-18; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-REDUCTION-7 KINA-REDUCTION-8 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_reduce(KinaTensor *out, const KinaTensor *in, int32_t axis, KinaReduceOp op);

/**
 * Computes exp(x) / sum(exp(x)) over `axis`, without overflow.
 *
 * f16, bf16, f32 and f64; the result has the shape and dtype of `in` [KINA-REDUCTION-22]. A row of -infinity alone
 * gives zeros; one with NaN or +infinity gives NaN [KINA-REDUCTION-24, KINA-REDUCTION-25].
 *
 * INVALID_ARGUMENT  a pointer is NULL, or `in` is empty
 * INVALID_HANDLE    `in` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     `axis` is none of `in`'s; `out` has not the shape of `in` [KINA-REDUCTION-2]
 * INVALID_DTYPE     `out` has another dtype than the result
 * DEVICE_MISMATCH   `out` is on another device than the result
 * UNSUPPORTED       a dtype that is no float [KINA-REDUCTION-22]
 * OVERLAP           `out` shares bytes with `in`, or is `in` [KINA-REDUCTION-26]
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under `in`'s elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-REDUCTION-2; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-REDUCTION-22 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-REDUCTION-26; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_softmax(KinaTensor *out, const KinaTensor *in, int32_t axis);

/**
 * Computes x - log(sum(exp(x))) over `axis`, without overflow.
 *
 * f16, bf16, f32 and f64; the result has the shape and dtype of `in` [KINA-REDUCTION-22]. A row of -infinity alone
 * gives -infinity; one with NaN or +infinity gives NaN [KINA-REDUCTION-24, KINA-REDUCTION-25].
 *
 * INVALID_ARGUMENT  a pointer is NULL, or `in` is empty
 * INVALID_HANDLE    `in` or a non-empty `out` is no live tensor
 * INVALID_SHAPE     `axis` is none of `in`'s; `out` has not the shape of `in` [KINA-REDUCTION-2]
 * INVALID_DTYPE     `out` has another dtype than the result
 * DEVICE_MISMATCH   `out` is on another device than the result
 * UNSUPPORTED       a dtype that is no float [KINA-REDUCTION-22]
 * OVERLAP           `out` shares bytes with `in`, or is `in` [KINA-REDUCTION-26]
 * READ_ONLY         `out` is read-only
 * FAILED_INPUT      bytes under `in`'s elements carry a failure
 * OUT_OF_MEMORY     the result's bytes or its handle could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device refused the work, or is lost
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-RESOURCE-69; INVALID_HANDLE KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-REDUCTION-2; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-REDUCTION-22 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-REDUCTION-26; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_log_softmax(KinaTensor *out, const KinaTensor *in, int32_t axis);

/* ==== matmul ====
 *
 * Products of matrices. One function: transposition, batches, scaling, bias and activation are options of one call.
 *
 * Ownership. `a`, `b`, `params` and `params->bias` are borrowed for the call; an empty `out` is produced and then owned
 * by the caller, a non-empty one is written [KINA-TENSOR-25, KINA-TENSOR-26, KINA-MATMUL-33].
 *
 * NULL. `params` may be NULL for all defaults [KINA-MATMUL-19], `params->bias` for none.
 *
 * Threads. Any thread; calls on different `out`s run at once [KINA-STATUS-32].
 *
 * KinaMatmulParams: `transpose_a`, `transpose_b` and `scaled` are 0 or 1 [KINA-MATMUL-20]; `alpha` and `beta` count
 * only if `scaled` is 1 [KINA-MATMUL-21]; `compute` strict or TF32 [KINA-MATMUL-31]; `out_dtype` 0 for the inputs'
 * [KINA-MATMUL-18]; `activation` 0 for none [KINA-MATMUL-29].
 */

/**
 * Computes out = act(alpha · A·B + beta · out + bias) for matrices or batches of matrices.
 *
 * Shapes: `a` is (…, m, k) and `b` (…, k, n) after their transpositions, each of at least two dimensions; the axes in
 * front broadcast; the result is (…, m, n) [KINA-MATMUL-1 to KINA-MATMUL-5]. Any strides [KINA-MATMUL-6]; empty extents
 * are fine, with k = 0 the product is 0 [KINA-MATMUL-7, KINA-MATMUL-9]. `transpose_b` makes y = x·Wᵀ, the linear layer,
 * one call.
 *
 * Dtypes: bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64, the same for `a` and `b` [KINA-MATMUL-16, KINA-MATMUL-17].
 * The result has that dtype, or f32 for f16 and bf16 if `out_dtype` asks for it. f16, bf16 and f32 are accumulated in
 * f32, f64 in f64, and rounded once at the end [KINA-MATMUL-10, KINA-MATMUL-11]; integers wrap; bool is `or` over `and`
 * [KINA-MATMUL-13, KINA-MATMUL-14]. NaN and infinity travel [KINA-MATMUL-12].
 *
 * Scaling: `beta` other than 0 reads `out`, which then must not be empty [KINA-MATMUL-25, KINA-MATMUL-26]; with beta 0
 * what `out` held does not matter, and with alpha 0 what `a` and `b` hold [KINA-MATMUL-23, KINA-MATMUL-24]. `bias` has
 * shape (n) and the dtype of the result, and is added to every row [KINA-MATMUL-28]. Integers and bool take a bias, but
 * neither scaling nor activation [KINA-MATMUL-27, KINA-MATMUL-30].
 *
 * Memory: temporaries come from the current resource [KINA-MATMUL-38].
 *
 * INVALID_ARGUMENT  a NULL or empty input; `beta` other than 0 with an empty `out` [KINA-MATMUL-25]
 * INVALID_HANDLE    a tensor that is none, or not live
 * VERSION           `params->struct_size` is wrong, or `params->reserved` is not 0
 * INVALID_SHAPE     rank, k, batch axes, shape of `bias` or of `out` [KINA-MATMUL-1, KINA-MATMUL-3, KINA-MATMUL-4,
 *                   KINA-MATMUL-28]
 * INVALID_DTYPE     `a` and `b`, `bias` or `out` do not agree [KINA-MATMUL-16, KINA-MATMUL-28]
 * DEVICE_MISMATCH   operands on different devices
 * OVERLAP           `out` shares a byte with `a`, `b` or `bias` [KINA-MATMUL-34]
 * READ_ONLY         `out` may not be written
 * UNSUPPORTED       dtype, `out_dtype`, option or activation that 1.0 has not [KINA-MATMUL-17, KINA-MATMUL-18,
 *                   KINA-MATMUL-20, KINA-MATMUL-29]
 * FAILED_INPUT      bytes of an input, or of `out` with `beta`, carry a failure
 * OUT_OF_MEMORY     the result or a temporary could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST, VENDOR_LIBRARY  the device or its library failed
 *
 * since: 1.0
 * feature: core
 * null: params, params.bias
 * owner: out produce, a borrow, b borrow, params borrow, params.bias borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-MATMUL-25 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-MATMUL-1 KINA-MATMUL-3 KINA-MATMUL-4 KINA-MATMUL-28; INVALID_DTYPE KINA-TENSOR-26 KINA-MATMUL-16 KINA-MATMUL-28; DEVICE_MISMATCH KINA-TENSOR-26 KINA-TENSOR-31 KINA-MATMUL-28; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-VERSION-16 KINA-MATMUL-17 KINA-MATMUL-18 KINA-MATMUL-20 KINA-MATMUL-27 KINA-MATMUL-29 KINA-MATMUL-30 KINA-MATMUL-31 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-MATMUL-34; READ_ONLY KINA-TENSOR-14; VERSION KINA-VERSION-11 KINA-VERSION-12 KINA-VERSION-13 KINA-VERSION-14; FAILED_INPUT KINA-TENSOR-32 KINA-MATMUL-26; OUT_OF_MEMORY KINA-STATUS-44 KINA-MATMUL-38; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected; VENDOR_LIBRARY KINA-STATUS-20 KINA-MATMUL-39 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_matmul(KinaTensor *out, const KinaTensor *a, const KinaTensor *b, const KinaMatmulParams *params);

/* ==== indexing ====
 *
 * Elements chosen by an index tensor, and elements repeated. Any dtype, bit for bit; any strides [KINA-INDEXING-5,
 * KINA-INDEXING-19, KINA-INDEXING-20].
 *
 * Ownership. Inputs are borrowed for the call; an empty `out` is produced with new bytes and then owned by the caller,
 * a non-empty one is written; it shares no byte with an input [KINA-INDEXING-21, KINA-INDEXING-22].
 *
 * NULL. No pointer may be NULL.
 *
 * Threads. Any thread; calls on different `out`s run at once [KINA-STATUS-32].
 *
 * Axes may be negative and then count from the end; indices may not [KINA-INDEXING-3, KINA-INDEXING-8,
 * KINA-INDEXING-17]. No index makes the library read outside `values` [KINA-INDEXING-12]. On the host an index out of
 * range is found before anything is written; on a device the elements concerned are 0 and the failure arrives late, as
 * a pending check of `out` [KINA-INDEXING-10, KINA-INDEXING-11], or at the call where `out` can carry none
 * [KINA-INDEXING-24]. A gather that is recorded checks its indices at every replay [KINA-INDEXING-25].
 */

/**
 * Gathers slices of `values` along axis 0: result[j…, k…] = values[indices[j…], k…].
 *
 * The shape is that of `indices` followed by `values`' axes behind the first, at most KINA_MAX_NDIM in all
 * [KINA-INDEXING-1, KINA-INDEXING-2, KINA-INDEXING-7]. `indices` are i32 or i64, of any shape; of ndim 0 they remove
 * the axis [KINA-INDEXING-4, KINA-INDEXING-6].
 *
 * INVALID_ARGUMENT    a NULL or empty input
 * INVALID_HANDLE      a tensor that is none, or not live
 * INVALID_SHAPE       `values` of ndim 0, too many axes or bytes, shape of `out` [KINA-INDEXING-3, KINA-INDEXING-7]
 * INVALID_DTYPE       `indices` neither i32 nor i64, dtype of `out` [KINA-INDEXING-4]
 * DEVICE_MISMATCH     operands on different devices
 * OVERLAP             `out` shares a byte with an input [KINA-INDEXING-22]
 * READ_ONLY           `out` may not be written
 * UNSUPPORTED         a dtype or device type that the library has not
 * FAILED_INPUT        bytes of `values` or `indices` carry a failure [KINA-INDEXING-13]
 * INDEX_OUT_OF_RANGE  an index below 0 or not below the extent; nothing is written [KINA-INDEXING-8]
 * OUT_OF_MEMORY       the result could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, values borrow, indices borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-INDEXING-3 KINA-INDEXING-7; INVALID_DTYPE KINA-TENSOR-26 KINA-INDEXING-4; DEVICE_MISMATCH KINA-TENSOR-26 KINA-TENSOR-31; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-INDEXING-22; READ_ONLY KINA-TENSOR-14; INDEX_OUT_OF_RANGE KINA-INDEXING-8 KINA-INDEXING-24; FAILED_INPUT KINA-TENSOR-32 KINA-INDEXING-13; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_gather(KinaTensor *out, const KinaTensor *values, const KinaTensor *indices);

/**
 * Gathers slices of `values` along `axis`: result[i…, j…, k…] = values[i…, indices[j…], k…].
 *
 * The shape is `values`' axes before `axis`, then that of `indices`, then `values`' axes behind it, at most
 * KINA_MAX_NDIM in all [KINA-INDEXING-1, KINA-INDEXING-7]. `indices` are i32 or i64, of any shape; of ndim 0 they
 * remove the axis [KINA-INDEXING-4, KINA-INDEXING-6].
 *
 * INVALID_ARGUMENT    a NULL or empty input
 * INVALID_HANDLE      a tensor that is none, or not live
 * INVALID_SHAPE       `axis` outside −ndim … ndim−1, too many axes or bytes, shape of `out` [KINA-INDEXING-3,
 *                     KINA-INDEXING-7]
 * INVALID_DTYPE       `indices` neither i32 nor i64, dtype of `out` [KINA-INDEXING-4]
 * DEVICE_MISMATCH     operands on different devices
 * OVERLAP             `out` shares a byte with an input [KINA-INDEXING-22]
 * READ_ONLY           `out` may not be written
 * UNSUPPORTED         a dtype or device type that the library has not
 * FAILED_INPUT        bytes of `values` or `indices` carry a failure [KINA-INDEXING-13]
 * INDEX_OUT_OF_RANGE  an index below 0 or not below the extent; nothing is written [KINA-INDEXING-8]
 * OUT_OF_MEMORY       the result could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, values borrow, indices borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-INDEXING-3 KINA-INDEXING-7; INVALID_DTYPE KINA-TENSOR-26 KINA-INDEXING-4; DEVICE_MISMATCH KINA-TENSOR-26 KINA-TENSOR-31; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-INDEXING-22; READ_ONLY KINA-TENSOR-14; INDEX_OUT_OF_RANGE KINA-INDEXING-8 KINA-INDEXING-24; FAILED_INPUT KINA-TENSOR-32 KINA-INDEXING-13; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_gather_axis(KinaTensor *out, const KinaTensor *values, const KinaTensor *indices, int32_t axis);

/**
 * Repeats every slice along `axis` `repeats` times in place: [a, b] with 2 gives [a, a, b, b].
 *
 * The extent of the axis is multiplied by `repeats`; 0 gives an empty extent [KINA-INDEXING-15, KINA-INDEXING-16].
 *
 * INVALID_ARGUMENT  a NULL or empty input; `repeats` below 0 [KINA-INDEXING-16]
 * INVALID_HANDLE    a tensor that is none, or not live
 * INVALID_SHAPE     `axis` outside −ndim … ndim−1, overflow by repeating, shape of `out` [KINA-INDEXING-17,
 *                   KINA-INDEXING-18]
 * INVALID_DTYPE     dtype of `out`
 * DEVICE_MISMATCH   `out` on another device
 * OVERLAP           `out` shares a byte with `in` [KINA-INDEXING-22]
 * READ_ONLY         `out` may not be written
 * UNSUPPORTED       a dtype or device type that the library has not
 * FAILED_INPUT      bytes of `in` carry a failure
 * OUT_OF_MEMORY     the result could not be had
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-INDEXING-16 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-INDEXING-17 KINA-INDEXING-18; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-INDEXING-22; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_repeat_interleave(KinaTensor *out, const KinaTensor *in, int32_t axis, int32_t repeats);

/* ==== structure ====
 *
 * The same elements under another shape: transpose, reshape, broadcast, slice, concat. Any dtype, any strides
 * [KINA-STRUCTURE-7].
 *
 * Out. With an empty `out` transpose, broadcast and slice always give a view of `in`, reshape gives one where strides
 * allow, and concat makes new bytes [KINA-STRUCTURE-1, KINA-STRUCTURE-2]. With a non-empty `out` all of them copy, bit
 * for bit, and `out` shares no byte with an input [KINA-STRUCTURE-3, KINA-STRUCTURE-8].
 *
 * Ownership. Inputs, permutations and shapes are borrowed for the call. A view is a tensor of its own, to be freed by
 * the caller; it keeps `in`'s storage alive and shares its bytes [KINA-STRUCTURE-4]. It has `in`'s flags with OWNED
 * replaced by VIEW [KINA-TENSOR-12]. Making one reads no element, so failed bytes do not matter [KINA-STRUCTURE-5].
 *
 * NULL. `permutation`, `new_shape` and `target_shape` may be NULL for ndim 0, where they have no entries.
 *
 * Threads. Any thread; calls on different `out`s run at once [KINA-STATUS-32].
 *
 * Axes may be negative and then count from the end; extents, `start` and `stop` may not, and nothing is clamped
 * [KINA-STRUCTURE-10, KINA-STRUCTURE-22, KINA-STRUCTURE-31].
 */

/**
 * Permutes axes: axis i of the result is axis `permutation[i]` of `in`.
 *
 * `permutation` has as many entries as `in` has axes and names each axis once [KINA-STRUCTURE-9, KINA-STRUCTURE-10].
 *
 * INVALID_ARGUMENT  a NULL or empty input; `permutation` NULL with ndim above 0 [KINA-STRUCTURE-11]
 * INVALID_HANDLE    a tensor that is none, or not live
 * INVALID_SHAPE     an entry out of range or an axis named twice [KINA-STRUCTURE-10], shape of `out`
 * INVALID_DTYPE     dtype of `out`
 * DEVICE_MISMATCH   `out` on another device
 * OVERLAP           `out` shares a byte with `in` [KINA-STRUCTURE-8]
 * READ_ONLY         `out` may not be written
 * UNSUPPORTED       a dtype or device type that the library has not
 * FAILED_INPUT      bytes that would be copied carry a failure [KINA-STRUCTURE-6]
 * OUT_OF_MEMORY     no handle, no host memory, or no bytes for a temporary
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: permutation (ndim 0)
 * owner: out produce, in borrow, permutation borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-STRUCTURE-11 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-STRUCTURE-10; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-STRUCTURE-8; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32 KINA-STRUCTURE-6; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_transpose(KinaTensor *out, const KinaTensor *in, const int32_t *permutation);

/**
 * Gives `in`'s elements, in row-major order, the shape `new_shape`.
 *
 * The number of elements stays; no extent is inferred [KINA-STRUCTURE-12, KINA-STRUCTURE-13]. An empty `out` becomes a
 * view exactly if some strides reach the same bytes in the same order, else new compact bytes [KINA-STRUCTURE-14,
 * KINA-STRUCTURE-15]; whether it shares bytes is told by its VIEW flag.
 *
 * INVALID_ARGUMENT  a NULL or empty input; `new_shape` NULL with `new_ndim` above 0 [KINA-STRUCTURE-16]
 * INVALID_HANDLE    a tensor that is none, or not live
 * INVALID_SHAPE     another number of elements, a negative extent, `new_ndim` [KINA-STRUCTURE-13], shape of `out`
 * INVALID_DTYPE     dtype of `out`
 * DEVICE_MISMATCH   `out` on another device
 * OVERLAP           `out` shares a byte with `in` [KINA-STRUCTURE-8]
 * READ_ONLY         `out` may not be written
 * UNSUPPORTED       a dtype or device type that the library has not
 * FAILED_INPUT      bytes that would be copied carry a failure [KINA-STRUCTURE-6]
 * OUT_OF_MEMORY     no handle, no host memory, or no bytes for the result
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: new_shape (new_ndim 0)
 * owner: out produce, in borrow, new_shape borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-STRUCTURE-16 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-STRUCTURE-13; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-STRUCTURE-8; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32 KINA-STRUCTURE-6; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_reshape(KinaTensor *out, const KinaTensor *in, const int64_t *new_shape, int32_t new_ndim);

/**
 * Expands axes of extent 1, and adds axes in front, until the shape is `target_shape`.
 *
 * Axes are aligned at the right [KINA-STRUCTURE-17]. In a view the expanded and new axes have stride 0
 * [KINA-STRUCTURE-18], and it is READ_ONLY where two indices share a byte [KINA-STRUCTURE-19].
 *
 * INVALID_ARGUMENT  a NULL or empty input; `target_shape` NULL with `target_ndim` above 0 [KINA-STRUCTURE-20]
 * INVALID_HANDLE    a tensor that is none, or not live
 * INVALID_SHAPE     an axis that does not broadcast, `target_ndim` [KINA-STRUCTURE-17], shape of `out`
 * INVALID_DTYPE     dtype of `out`
 * DEVICE_MISMATCH   `out` on another device
 * OVERLAP           `out` shares a byte with `in` [KINA-STRUCTURE-8]
 * READ_ONLY         `out` may not be written
 * UNSUPPORTED       a dtype or device type that the library has not
 * FAILED_INPUT      bytes that would be copied carry a failure [KINA-STRUCTURE-6]
 * OUT_OF_MEMORY     no handle, no host memory, or no bytes for a temporary
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: target_shape (target_ndim 0)
 * owner: out produce, in borrow, target_shape borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-STRUCTURE-20 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-STRUCTURE-17; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-STRUCTURE-8; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32 KINA-STRUCTURE-6; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_broadcast(KinaTensor *out, const KinaTensor *in, const int64_t *target_shape, int32_t target_ndim);

/**
 * Keeps the indices `start` … `stop`−1 of `axis`.
 *
 * 0 ≤ start ≤ stop ≤ extent; start = stop gives an empty extent [KINA-STRUCTURE-21 to KINA-STRUCTURE-23]. A view keeps
 * `in`'s strides.
 *
 * INVALID_ARGUMENT  a NULL or empty input
 * INVALID_HANDLE    a tensor that is none, or not live
 * INVALID_SHAPE     `axis` [KINA-STRUCTURE-31], `start` or `stop` [KINA-STRUCTURE-22], shape of `out`
 * INVALID_DTYPE     dtype of `out`
 * DEVICE_MISMATCH   `out` on another device
 * OVERLAP           `out` shares a byte with `in` [KINA-STRUCTURE-8]
 * READ_ONLY         `out` may not be written
 * UNSUPPORTED       a dtype or device type that the library has not
 * FAILED_INPUT      bytes that would be copied carry a failure [KINA-STRUCTURE-6]
 * OUT_OF_MEMORY     no handle, no host memory, or no bytes for a temporary
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, in borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-STRUCTURE-22 KINA-STRUCTURE-31; INVALID_DTYPE KINA-TENSOR-26; DEVICE_MISMATCH KINA-TENSOR-26; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-STRUCTURE-8; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32 KINA-STRUCTURE-6; OUT_OF_MEMORY KINA-STATUS-44 injected; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_slice(KinaTensor *out, const KinaTensor *in, int32_t axis, int64_t start, int64_t stop);

/**
 * Joins `a` and `b` along `axis`: `runtime_gpu_concat_n` of two.
 *
 * Both have one dtype and one shape but for the extent of `axis`, which becomes the sum [KINA-STRUCTURE-24 to
 * KINA-STRUCTURE-27].
 *
 * INVALID_ARGUMENT  a NULL or empty input
 * INVALID_HANDLE    a tensor that is none, or not live
 * INVALID_SHAPE     `axis` [KINA-STRUCTURE-31], shapes that do not fit [KINA-STRUCTURE-26], shape of `out`
 * INVALID_DTYPE     dtypes differ [KINA-STRUCTURE-27], or that of `out`
 * DEVICE_MISMATCH   operands on different devices
 * OVERLAP           `out` shares a byte with an input [KINA-STRUCTURE-8]
 * READ_ONLY         `out` may not be written
 * UNSUPPORTED       a dtype or device type that the library has not
 * FAILED_INPUT      bytes that would be copied carry a failure [KINA-STRUCTURE-6]
 * OUT_OF_MEMORY     no handle, no host memory, or no bytes for the result
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, a borrow, b borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-STRUCTURE-26 KINA-STRUCTURE-31; INVALID_DTYPE KINA-TENSOR-26 KINA-STRUCTURE-27; DEVICE_MISMATCH KINA-TENSOR-26 KINA-TENSOR-31; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-STRUCTURE-8; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32 KINA-STRUCTURE-6; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_concat(KinaTensor *out, const KinaTensor *a, const KinaTensor *b, int32_t axis);

/**
 * Joins `count` tensors along `axis`, in order.
 *
 * All have one dtype and one shape but for the extent of `axis`, which becomes the sum [KINA-STRUCTURE-24,
 * KINA-STRUCTURE-26, KINA-STRUCTURE-27]. One input is copied [KINA-STRUCTURE-28]; a tensor may occur more than once
 * [KINA-STRUCTURE-30].
 *
 * INVALID_ARGUMENT  a NULL or empty input; a NULL entry; `count` below 1 [KINA-STRUCTURE-28, KINA-STRUCTURE-29]
 * INVALID_HANDLE    a tensor that is none, or not live
 * INVALID_SHAPE     `axis` [KINA-STRUCTURE-31], shapes that do not fit [KINA-STRUCTURE-26], shape of `out`
 * INVALID_DTYPE     dtypes differ [KINA-STRUCTURE-27], or that of `out`
 * DEVICE_MISMATCH   operands on different devices
 * OVERLAP           `out` shares a byte with an input [KINA-STRUCTURE-8]
 * READ_ONLY         `out` may not be written
 * UNSUPPORTED       a dtype or device type that the library has not
 * FAILED_INPUT      bytes that would be copied carry a failure [KINA-STRUCTURE-6]
 * OUT_OF_MEMORY     no handle, no host memory, or no bytes for the result
 * DEVICE, KERNEL_LAUNCH, DEVICE_LOST  the device failed
 *
 * since: 1.0
 * feature: core
 * null: none
 * owner: out produce, inputs borrow
 * errors: INVALID_ARGUMENT KINA-STATUS-23 KINA-STATUS-24 KINA-TENSOR-2 KINA-TENSOR-19 KINA-TENSOR-20 KINA-TENSOR-22 KINA-TENSOR-34 KINA-STRUCTURE-28 KINA-STRUCTURE-29 KINA-RESOURCE-69; INVALID_HANDLE KINA-STATUS-26 KINA-TENSOR-3 KINA-TENSOR-4 KINA-TENSOR-23; INVALID_SHAPE KINA-STATUS-25 KINA-TENSOR-15 KINA-TENSOR-21 KINA-TENSOR-26 KINA-STRUCTURE-26 KINA-STRUCTURE-31; INVALID_DTYPE KINA-TENSOR-26 KINA-STRUCTURE-27; DEVICE_MISMATCH KINA-TENSOR-26 KINA-TENSOR-31; UNSUPPORTED KINA-STATUS-24 KINA-TENSOR-17 KINA-STREAM-14 KINA-STREAM-41; OVERLAP KINA-TENSOR-30 KINA-STRUCTURE-8; READ_ONLY KINA-TENSOR-14; FAILED_INPUT KINA-TENSOR-32 KINA-STRUCTURE-6; OUT_OF_MEMORY KINA-STATUS-44; DEVICE KINA-DEVICE-23 KINA-RESOURCE-63 injected; KERNEL_LAUNCH KINA-DEVICE-23 KINA-STATUS-20 injected; DEVICE_LOST KINA-DEVICE-21 KINA-STATUS-36 KINA-RESOURCE-63 injected
 * stream: host/enqueues
 * alloc: handle, host, resource, device
 * thread: any
 */
KINA_API KinaStatus runtime_gpu_concat_n(KinaTensor *out, const KinaTensor *const *inputs, int32_t count, int32_t axis);

#ifdef __cplusplus
}
#endif

#endif /* KINA_RUNTIME_H */
