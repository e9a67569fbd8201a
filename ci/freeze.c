/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.c: every number of kina_runtime.h that must never change, asserted at compile time, in C99 … C17 and C++11 … C++20:
 * sizes, offsets, enumerators, macros, signatures, and the tensor against the official dlpack.h. It compiles or it does
 * not; nothing here runs. This file may only grow.
 */
#include "kina_runtime.h"

/* clang-format off */

#define FREEZE(name, condition) typedef char freeze_##name[(condition) ? 1 : -1]
#define FREEZE_VALUE(name, value) FREEZE(value_##name, (name) == (value))
#define FREEZE_SIGNED(type) FREEZE(type_##type, sizeof(type) == 4 && (type)-1 < (type)0)
#define FREEZE_UNSIGNED(type) FREEZE(type_##type, sizeof(type) == 4 && (type)-1 > (type)0)
#define FREEZE_POINTER(type) FREEZE(type_##type, sizeof(type) == 8)
#define FREEZE_SIZE(type, bytes) FREEZE(size_##type, sizeof(type) == (bytes))
#define FREEZE_FIELD(type, field, offset, bytes) \
    FREEZE(field_##type##_##field, offsetof(type, field) == (offset) && sizeof(((type *)0)->field) == (bytes))

#ifdef __cplusplus
extern "C" {
#endif

/* Types */
FREEZE_POINTER(KinaStream);
FREEZE_POINTER(KinaScope);
FREEZE_POINTER(KinaResource);
FREEZE_POINTER(KinaWeak);
FREEZE_POINTER(KinaPeer);
FREEZE_UNSIGNED(KinaDtype);
FREEZE_SIGNED(KinaStatus);
FREEZE_SIGNED(KinaCategory);
FREEZE_SIGNED(KinaNativeDomain);
FREEZE_SIGNED(KinaFeature);
FREEZE_SIGNED(KinaLogLevel);
FREEZE_SIGNED(KinaAccess);
FREEZE_SIGNED(KinaOverlap);
FREEZE_SIGNED(KinaUnaryOp);
FREEZE_SIGNED(KinaBinaryOp);
FREEZE_SIGNED(KinaReduceOp);
FREEZE_SIGNED(KinaCompute);
FREEZE_SIGNED(KinaGrowth);
FREEZE_SIGNED(KinaLogFormat);
FREEZE_SIGNED(KinaLogEvent);
FREEZE_POINTER(KinaLogCallback);
FREEZE_POINTER(KinaAllocateCallback);
FREEZE_POINTER(KinaDeallocateCallback);
FREEZE_POINTER(KinaDestroyCallback);
FREEZE_POINTER(KinaLogRowCallback);

/* Macros */
FREEZE_VALUE(KINA_ABI_VERSION, 0x00010000u);
FREEZE_VALUE(KINA_STRUCT_LIMIT, 4096u);
FREEZE_VALUE(KINA_TENSOR_MAGIC, 0x414E494Bu);
FREEZE_VALUE(KINA_MAX_NDIM, 32);
FREEZE_VALUE(KINA_AXIS_ALL, (-2147483647 - 1));

/* Enumerators */
FREEZE_VALUE(KINA_FEATURE_CORE, 1);
FREEZE_VALUE(KINA_FEATURE_DLPACK, 2);
FREEZE_VALUE(KINA_FEATURE_CUDA, 3);
FREEZE_VALUE(KINA_FEATURE_SIM, 4);
FREEZE_VALUE(KINA_FEATURE_PEER, 5);
FREEZE_VALUE(KINA_FEATURE_CAPTURE, 6);
FREEZE_VALUE(KINA_FEATURE_FLOAT8, 7);

FREEZE_VALUE(KINA_SUCCESS, 0);
FREEZE_VALUE(KINA_ERROR_OUT_OF_MEMORY, 1);
FREEZE_VALUE(KINA_ERROR_DEVICE, 2);
FREEZE_VALUE(KINA_ERROR_INVALID_SHAPE, 3);
FREEZE_VALUE(KINA_ERROR_DLPACK, 4);
FREEZE_VALUE(KINA_ERROR_KERNEL_LAUNCH, 5);
FREEZE_VALUE(KINA_ERROR_INTERNAL, 6);
FREEZE_VALUE(KINA_ERROR_INVALID_ARGUMENT, 7);
FREEZE_VALUE(KINA_ERROR_INVALID_HANDLE, 8);
FREEZE_VALUE(KINA_ERROR_INVALID_DTYPE, 9);
FREEZE_VALUE(KINA_ERROR_DEVICE_MISMATCH, 10);
FREEZE_VALUE(KINA_ERROR_UNSUPPORTED, 11);
FREEZE_VALUE(KINA_ERROR_OVERLAP, 12);
FREEZE_VALUE(KINA_ERROR_READ_ONLY, 13);
FREEZE_VALUE(KINA_ERROR_FAILED_INPUT, 14);
FREEZE_VALUE(KINA_ERROR_INDEX_OUT_OF_RANGE, 15);
FREEZE_VALUE(KINA_ERROR_BUSY, 16);
FREEZE_VALUE(KINA_ERROR_VERSION, 17);
FREEZE_VALUE(KINA_ERROR_DEVICE_LOST, 18);
FREEZE_VALUE(KINA_ERROR_VENDOR_LIBRARY, 19);

FREEZE_VALUE(KINA_CATEGORY_NONE, 0);
FREEZE_VALUE(KINA_CATEGORY_CALLER, 1);
FREEZE_VALUE(KINA_CATEGORY_RESOURCE, 2);
FREEZE_VALUE(KINA_CATEGORY_DEVICE, 3);
FREEZE_VALUE(KINA_CATEGORY_UNSUPPORTED, 4);
FREEZE_VALUE(KINA_CATEGORY_INTERNAL, 5);

FREEZE_VALUE(KINA_NATIVE_NONE, 0);
FREEZE_VALUE(KINA_NATIVE_CUDA_RUNTIME, 1);
FREEZE_VALUE(KINA_NATIVE_CUDA_DRIVER, 2);
FREEZE_VALUE(KINA_NATIVE_CUBLAS, 3);
FREEZE_VALUE(KINA_NATIVE_CUDNN, 4);

FREEZE_VALUE(KINA_LOG_OFF, 0);
FREEZE_VALUE(KINA_LOG_ERROR, 1);
FREEZE_VALUE(KINA_LOG_WARNING, 2);
FREEZE_VALUE(KINA_LOG_INFO, 3);
FREEZE_VALUE(KINA_LOG_DEBUG, 4);
FREEZE_VALUE(KINA_LOG_TRACE, 5);

FREEZE_VALUE(KINA_GROWTH_GEOMETRIC, 0);
FREEZE_VALUE(KINA_GROWTH_FIXED, 1);
FREEZE_VALUE(KINA_GROWTH_NONE, 2);

FREEZE_VALUE(KINA_LOG_FORMAT_TEXT, 0);
FREEZE_VALUE(KINA_LOG_FORMAT_JSON_LINES, 1);

FREEZE_VALUE(KINA_LOG_EVENT_ALLOCATE, 1);
FREEZE_VALUE(KINA_LOG_EVENT_DEALLOCATE, 2);

FREEZE_VALUE(KINA_POOL_OPPORTUNISTIC, 0x1);
FREEZE_VALUE(KINA_POOL_LAZY, 0x2);

FREEZE_VALUE(KINA_CUDA_ASYNC_OPPORTUNISTIC, 0x1);

FREEZE_VALUE(KINA_LOGGING_FRAMES, 0x1);

FREEZE_VALUE(KINA_FLAG_OWNED, 0x1);
FREEZE_VALUE(KINA_FLAG_VIEW, 0x2);
FREEZE_VALUE(KINA_FLAG_IMPORTED, 0x4);
FREEZE_VALUE(KINA_FLAG_BORROWED, 0x8);
FREEZE_VALUE(KINA_FLAG_READ_ONLY, 0x10);
FREEZE_VALUE(KINA_FLAG_PEER, 0x20);

FREEZE_VALUE(KINA_ACCESS_READ, 1);
FREEZE_VALUE(KINA_ACCESS_WRITE, 2);
FREEZE_VALUE(KINA_ACCESS_READ_WRITE, 3);

FREEZE_VALUE(KINA_DTYPE_BOOL, 0x00010806);
FREEZE_VALUE(KINA_DTYPE_U8, 0x00010801);
FREEZE_VALUE(KINA_DTYPE_I8, 0x00010800);
FREEZE_VALUE(KINA_DTYPE_U16, 0x00011001);
FREEZE_VALUE(KINA_DTYPE_I16, 0x00011000);
FREEZE_VALUE(KINA_DTYPE_U32, 0x00012001);
FREEZE_VALUE(KINA_DTYPE_I32, 0x00012000);
FREEZE_VALUE(KINA_DTYPE_U64, 0x00014001);
FREEZE_VALUE(KINA_DTYPE_I64, 0x00014000);
FREEZE_VALUE(KINA_DTYPE_F8E4M3FN, 0x0001080A);
FREEZE_VALUE(KINA_DTYPE_F8E5M2, 0x0001080C);
FREEZE_VALUE(KINA_DTYPE_F16, 0x00011002);
FREEZE_VALUE(KINA_DTYPE_BF16, 0x00011004);
FREEZE_VALUE(KINA_DTYPE_F32, 0x00012002);
FREEZE_VALUE(KINA_DTYPE_F64, 0x00014002);
FREEZE_VALUE(KINA_DTYPE_C64, 0x00014005);
FREEZE_VALUE(KINA_DTYPE_C128, 0x00018005);

FREEZE_VALUE(KINA_OVERLAP_DISJOINT, 0);
FREEZE_VALUE(KINA_OVERLAP_SAME, 1);
FREEZE_VALUE(KINA_OVERLAP_PARTIAL, 2);

FREEZE_VALUE(KINA_DLPACK_COPY, 0x1);
FREEZE_VALUE(KINA_DLPACK_READ_ONLY, 0x2);

FREEZE_VALUE(KINA_UNARY_NEG, 0x100);
FREEZE_VALUE(KINA_UNARY_ABS, 0x101);
FREEZE_VALUE(KINA_UNARY_SIGN, 0x102);
FREEZE_VALUE(KINA_UNARY_EXP, 0x103);
FREEZE_VALUE(KINA_UNARY_EXPM1, 0x104);
FREEZE_VALUE(KINA_UNARY_EXP2, 0x105);
FREEZE_VALUE(KINA_UNARY_LOG, 0x106);
FREEZE_VALUE(KINA_UNARY_LOG1P, 0x107);
FREEZE_VALUE(KINA_UNARY_LOG2, 0x108);
FREEZE_VALUE(KINA_UNARY_SQRT, 0x109);
FREEZE_VALUE(KINA_UNARY_RSQRT, 0x10A);
FREEZE_VALUE(KINA_UNARY_RECIPROCAL, 0x10B);
FREEZE_VALUE(KINA_UNARY_SQUARE, 0x10C);
FREEZE_VALUE(KINA_UNARY_SIN, 0x10D);
FREEZE_VALUE(KINA_UNARY_COS, 0x10E);
FREEZE_VALUE(KINA_UNARY_TAN, 0x10F);
FREEZE_VALUE(KINA_UNARY_ASIN, 0x110);
FREEZE_VALUE(KINA_UNARY_ACOS, 0x111);
FREEZE_VALUE(KINA_UNARY_ATAN, 0x112);
FREEZE_VALUE(KINA_UNARY_SINH, 0x113);
FREEZE_VALUE(KINA_UNARY_COSH, 0x114);
FREEZE_VALUE(KINA_UNARY_TANH, 0x115);
FREEZE_VALUE(KINA_UNARY_ERF, 0x116);
FREEZE_VALUE(KINA_UNARY_SIGMOID, 0x117);
FREEZE_VALUE(KINA_UNARY_RELU, 0x118);
FREEZE_VALUE(KINA_UNARY_GELU, 0x119);
FREEZE_VALUE(KINA_UNARY_GELU_TANH, 0x11A);
FREEZE_VALUE(KINA_UNARY_SILU, 0x11B);
FREEZE_VALUE(KINA_UNARY_FLOOR, 0x11C);
FREEZE_VALUE(KINA_UNARY_CEIL, 0x11D);
FREEZE_VALUE(KINA_UNARY_ROUND, 0x11E);
FREEZE_VALUE(KINA_UNARY_TRUNC, 0x11F);
FREEZE_VALUE(KINA_UNARY_LOGICAL_NOT, 0x120);
FREEZE_VALUE(KINA_UNARY_BITWISE_NOT, 0x121);
FREEZE_VALUE(KINA_UNARY_ISNAN, 0x122);
FREEZE_VALUE(KINA_UNARY_ISINF, 0x123);
FREEZE_VALUE(KINA_UNARY_ISFINITE, 0x124);

FREEZE_VALUE(KINA_BINARY_ADD, 0x200);
FREEZE_VALUE(KINA_BINARY_SUB, 0x201);
FREEZE_VALUE(KINA_BINARY_MUL, 0x202);
FREEZE_VALUE(KINA_BINARY_DIV, 0x203);
FREEZE_VALUE(KINA_BINARY_FLOOR_DIV, 0x204);
FREEZE_VALUE(KINA_BINARY_MOD, 0x205);
FREEZE_VALUE(KINA_BINARY_POW, 0x206);
FREEZE_VALUE(KINA_BINARY_MAXIMUM, 0x207);
FREEZE_VALUE(KINA_BINARY_MINIMUM, 0x208);
FREEZE_VALUE(KINA_BINARY_ATAN2, 0x209);
FREEZE_VALUE(KINA_BINARY_LOGICAL_AND, 0x20A);
FREEZE_VALUE(KINA_BINARY_LOGICAL_OR, 0x20B);
FREEZE_VALUE(KINA_BINARY_LOGICAL_XOR, 0x20C);
FREEZE_VALUE(KINA_BINARY_BITWISE_AND, 0x20D);
FREEZE_VALUE(KINA_BINARY_BITWISE_OR, 0x20E);
FREEZE_VALUE(KINA_BINARY_BITWISE_XOR, 0x20F);
FREEZE_VALUE(KINA_BINARY_SHIFT_LEFT, 0x210);
FREEZE_VALUE(KINA_BINARY_SHIFT_RIGHT, 0x211);
FREEZE_VALUE(KINA_BINARY_EQUAL, 0x240);
FREEZE_VALUE(KINA_BINARY_NOT_EQUAL, 0x241);
FREEZE_VALUE(KINA_BINARY_LESS, 0x242);
FREEZE_VALUE(KINA_BINARY_LESS_EQUAL, 0x243);
FREEZE_VALUE(KINA_BINARY_GREATER, 0x244);
FREEZE_VALUE(KINA_BINARY_GREATER_EQUAL, 0x245);

FREEZE_VALUE(KINA_REDUCE_SUM, 0x300);
FREEZE_VALUE(KINA_REDUCE_MEAN, 0x301);
FREEZE_VALUE(KINA_REDUCE_PROD, 0x302);
FREEZE_VALUE(KINA_REDUCE_MAX, 0x303);
FREEZE_VALUE(KINA_REDUCE_MIN, 0x304);
FREEZE_VALUE(KINA_REDUCE_ARGMAX, 0x305);
FREEZE_VALUE(KINA_REDUCE_ARGMIN, 0x306);
FREEZE_VALUE(KINA_REDUCE_ANY, 0x307);
FREEZE_VALUE(KINA_REDUCE_ALL, 0x308);

FREEZE_VALUE(KINA_REDUCE_KEEPDIMS, 0x10000);

FREEZE_VALUE(KINA_COMPUTE_STRICT, 0);
FREEZE_VALUE(KINA_COMPUTE_TF32, 1);

/* Structs */
FREEZE_SIZE(KinaErrorInfo, 96);
FREEZE_FIELD(KinaErrorInfo, struct_size, 0, 4);
FREEZE_FIELD(KinaErrorInfo, status, 4, 4);
FREEZE_FIELD(KinaErrorInfo, category, 8, 4);
FREEZE_FIELD(KinaErrorInfo, retryable, 12, 4);
FREEZE_FIELD(KinaErrorInfo, argument, 16, 4);
FREEZE_FIELD(KinaErrorInfo, native_domain, 20, 4);
FREEZE_FIELD(KinaErrorInfo, native_code, 24, 8);
FREEZE_FIELD(KinaErrorInfo, failure, 32, 8);
FREEZE_FIELD(KinaErrorInfo, requested_bytes, 40, 8);
FREEZE_FIELD(KinaErrorInfo, function, 48, 8);
FREEZE_FIELD(KinaErrorInfo, argument_name, 56, 8);
FREEZE_FIELD(KinaErrorInfo, clause, 64, 8);
FREEZE_FIELD(KinaErrorInfo, native_name, 72, 8);
FREEZE_FIELD(KinaErrorInfo, native_message, 80, 8);
FREEZE_FIELD(KinaErrorInfo, message, 88, 8);

FREEZE_SIZE(KinaDeviceInfo, 96);
FREEZE_FIELD(KinaDeviceInfo, struct_size, 0, 4);
FREEZE_FIELD(KinaDeviceInfo, device_type, 4, 4);
FREEZE_FIELD(KinaDeviceInfo, device_id, 8, 4);
FREEZE_FIELD(KinaDeviceInfo, is_lost, 12, 4);
FREEZE_FIELD(KinaDeviceInfo, name, 16, 8);
FREEZE_FIELD(KinaDeviceInfo, total_bytes, 24, 8);
FREEZE_FIELD(KinaDeviceInfo, free_bytes, 32, 8);
FREEZE_FIELD(KinaDeviceInfo, compute_capability_major, 40, 4);
FREEZE_FIELD(KinaDeviceInfo, compute_capability_minor, 44, 4);
FREEZE_FIELD(KinaDeviceInfo, multiprocessor_count, 48, 4);
FREEZE_FIELD(KinaDeviceInfo, warp_size, 52, 4);
FREEZE_FIELD(KinaDeviceInfo, driver_version, 56, 4);
FREEZE_FIELD(KinaDeviceInfo, runtime_version, 60, 4);
FREEZE_FIELD(KinaDeviceInfo, has_memory_pools, 64, 4);
FREEZE_FIELD(KinaDeviceInfo, has_unified_addressing, 68, 4);
FREEZE_FIELD(KinaDeviceInfo, numa_node, 72, 4);
FREEZE_FIELD(KinaDeviceInfo, reserved, 76, 4);
FREEZE_FIELD(KinaDeviceInfo, uuid, 80, 16);

FREEZE_SIZE(KinaResourceInfo, 168);
FREEZE_FIELD(KinaResourceInfo, struct_size, 0, 4);
FREEZE_FIELD(KinaResourceInfo, device_type, 4, 4);
FREEZE_FIELD(KinaResourceInfo, device_id, 8, 4);
FREEZE_FIELD(KinaResourceInfo, supports_streams, 12, 4);
FREEZE_FIELD(KinaResourceInfo, upstream, 16, 8);
FREEZE_FIELD(KinaResourceInfo, name, 24, 8);
FREEZE_FIELD(KinaResourceInfo, alignment, 32, 8);
FREEZE_FIELD(KinaResourceInfo, maximum_bytes, 40, 8);
FREEZE_FIELD(KinaResourceInfo, live_bytes, 48, 8);
FREEZE_FIELD(KinaResourceInfo, peak_bytes, 56, 8);
FREEZE_FIELD(KinaResourceInfo, live_blocks, 64, 8);
FREEZE_FIELD(KinaResourceInfo, reserved_bytes, 72, 8);
FREEZE_FIELD(KinaResourceInfo, leaked_bytes, 80, 8);
FREEZE_FIELD(KinaResourceInfo, leaked_blocks, 88, 8);
FREEZE_FIELD(KinaResourceInfo, metadata_bytes, 96, 8);
FREEZE_FIELD(KinaResourceInfo, allocations, 104, 8);
FREEZE_FIELD(KinaResourceInfo, deallocations, 112, 8);
FREEZE_FIELD(KinaResourceInfo, failures, 120, 8);
FREEZE_FIELD(KinaResourceInfo, upstream_calls, 128, 8);
FREEZE_FIELD(KinaResourceInfo, cache_hits, 136, 8);
FREEZE_FIELD(KinaResourceInfo, event_records, 144, 8);
FREEZE_FIELD(KinaResourceInfo, stream_waits, 152, 8);
FREEZE_FIELD(KinaResourceInfo, dropped_rows, 160, 8);

FREEZE_SIZE(KinaResourceVtable, 40);
FREEZE_FIELD(KinaResourceVtable, struct_size, 0, 4);
FREEZE_FIELD(KinaResourceVtable, supports_streams, 4, 4);
FREEZE_FIELD(KinaResourceVtable, name, 8, 8);
FREEZE_FIELD(KinaResourceVtable, allocate, 16, 8);
FREEZE_FIELD(KinaResourceVtable, deallocate, 24, 8);
FREEZE_FIELD(KinaResourceVtable, destroy, 32, 8);

FREEZE_SIZE(KinaPoolParams, 56);
FREEZE_FIELD(KinaPoolParams, struct_size, 0, 4);
FREEZE_FIELD(KinaPoolParams, flags, 4, 4);
FREEZE_FIELD(KinaPoolParams, growth, 8, 4);
FREEZE_FIELD(KinaPoolParams, reserved, 12, 4);
FREEZE_FIELD(KinaPoolParams, initial_bytes, 16, 8);
FREEZE_FIELD(KinaPoolParams, maximum_bytes, 24, 8);
FREEZE_FIELD(KinaPoolParams, growth_bytes, 32, 8);
FREEZE_FIELD(KinaPoolParams, alignment, 40, 8);
FREEZE_FIELD(KinaPoolParams, release_threshold_bytes, 48, 8);

FREEZE_SIZE(KinaCudaAsyncParams, 32);
FREEZE_FIELD(KinaCudaAsyncParams, struct_size, 0, 4);
FREEZE_FIELD(KinaCudaAsyncParams, flags, 4, 4);
FREEZE_FIELD(KinaCudaAsyncParams, initial_bytes, 8, 8);
FREEZE_FIELD(KinaCudaAsyncParams, maximum_bytes, 16, 8);
FREEZE_FIELD(KinaCudaAsyncParams, release_threshold_bytes, 24, 8);

FREEZE_SIZE(KinaLogRow, 96);
FREEZE_FIELD(KinaLogRow, struct_size, 0, 4);
FREEZE_FIELD(KinaLogRow, event, 4, 4);
FREEZE_FIELD(KinaLogRow, status, 8, 4);
FREEZE_FIELD(KinaLogRow, frame_count, 12, 4);
FREEZE_FIELD(KinaLogRow, order, 16, 8);
FREEZE_FIELD(KinaLogRow, time_nanoseconds, 24, 8);
FREEZE_FIELD(KinaLogRow, thread, 32, 8);
FREEZE_FIELD(KinaLogRow, bytes, 40, 8);
FREEZE_FIELD(KinaLogRow, alignment, 48, 8);
FREEZE_FIELD(KinaLogRow, data, 56, 8);
FREEZE_FIELD(KinaLogRow, stream, 64, 8);
FREEZE_FIELD(KinaLogRow, resource, 72, 8);
FREEZE_FIELD(KinaLogRow, resource_name, 80, 8);
FREEZE_FIELD(KinaLogRow, frames, 88, 8);

FREEZE_SIZE(KinaLoggingParams, 48);
FREEZE_FIELD(KinaLoggingParams, struct_size, 0, 4);
FREEZE_FIELD(KinaLoggingParams, flags, 4, 4);
FREEZE_FIELD(KinaLoggingParams, format, 8, 4);
FREEZE_FIELD(KinaLoggingParams, reserved, 12, 4);
FREEZE_FIELD(KinaLoggingParams, path, 16, 8);
FREEZE_FIELD(KinaLoggingParams, callback, 24, 8);
FREEZE_FIELD(KinaLoggingParams, context, 32, 8);
FREEZE_FIELD(KinaLoggingParams, ring_rows, 40, 8);

FREEZE_SIZE(KinaTensor, 96);
FREEZE_FIELD(KinaTensor, dl, 0, 48);
FREEZE_FIELD(KinaTensor, allocator, 48, 8);
FREEZE_FIELD(KinaTensor, stream, 56, 8);
FREEZE_FIELD(KinaTensor, size_bytes, 64, 8);
FREEZE_FIELD(KinaTensor, flags, 72, 4);
FREEZE_FIELD(KinaTensor, magic, 76, 4);
FREEZE_FIELD(KinaTensor, handle, 80, 8);
FREEZE_FIELD(KinaTensor, reserved, 88, 8);

FREEZE_SIZE(KinaByteRange, 24);
FREEZE_FIELD(KinaByteRange, storage, 0, 8);
FREEZE_FIELD(KinaByteRange, start, 8, 8);
FREEZE_FIELD(KinaByteRange, end, 16, 8);

FREEZE_SIZE(KinaFailureInfo, 192);
FREEZE_FIELD(KinaFailureInfo, struct_size, 0, 4);
FREEZE_FIELD(KinaFailureInfo, status, 4, 4);
FREEZE_FIELD(KinaFailureInfo, failure, 8, 8);
FREEZE_FIELD(KinaFailureInfo, range, 16, 24);
FREEZE_FIELD(KinaFailureInfo, function, 40, 8);
FREEZE_FIELD(KinaFailureInfo, message, 48, 8);
FREEZE_FIELD(KinaFailureInfo, skipped_count, 56, 4);
FREEZE_FIELD(KinaFailureInfo, skipped_total, 60, 4);
FREEZE_FIELD(KinaFailureInfo, skipped, 64, 128);

FREEZE_SIZE(KinaDlpackParams, 24);
FREEZE_FIELD(KinaDlpackParams, struct_size, 0, 4);
FREEZE_FIELD(KinaDlpackParams, flags, 4, 4);
FREEZE_FIELD(KinaDlpackParams, stream, 8, 8);
FREEZE_FIELD(KinaDlpackParams, max_major, 16, 4);
FREEZE_FIELD(KinaDlpackParams, max_minor, 20, 4);

FREEZE_SIZE(KinaMatmulParams, 56);
FREEZE_FIELD(KinaMatmulParams, struct_size, 0, 4);
FREEZE_FIELD(KinaMatmulParams, transpose_a, 4, 4);
FREEZE_FIELD(KinaMatmulParams, transpose_b, 8, 4);
FREEZE_FIELD(KinaMatmulParams, scaled, 12, 4);
FREEZE_FIELD(KinaMatmulParams, alpha, 16, 8);
FREEZE_FIELD(KinaMatmulParams, beta, 24, 8);
FREEZE_FIELD(KinaMatmulParams, compute, 32, 4);
FREEZE_FIELD(KinaMatmulParams, out_dtype, 36, 4);
FREEZE_FIELD(KinaMatmulParams, bias, 40, 8);
FREEZE_FIELD(KinaMatmulParams, activation, 48, 4);
FREEZE_FIELD(KinaMatmulParams, reserved, 52, 4);

/* DLPack's structs, as the official header lays them out */
FREEZE_SIZE(DLTensor, 48);
FREEZE_FIELD(DLTensor, data, 0, 8);
FREEZE_FIELD(DLTensor, device, 8, 8);
FREEZE_FIELD(DLTensor, ndim, 16, 4);
FREEZE_FIELD(DLTensor, dtype, 20, 4);
FREEZE_FIELD(DLTensor, shape, 24, 8);
FREEZE_FIELD(DLTensor, strides, 32, 8);
FREEZE_FIELD(DLTensor, byte_offset, 40, 8);
FREEZE_SIZE(DLDevice, 8);
FREEZE_FIELD(DLDevice, device_type, 0, 4);
FREEZE_FIELD(DLDevice, device_id, 4, 4);
FREEZE_SIZE(DLDataType, 4);
FREEZE_FIELD(DLDataType, code, 0, 1);
FREEZE_FIELD(DLDataType, bits, 1, 1);
FREEZE_FIELD(DLDataType, lanes, 2, 2);
FREEZE_SIZE(DLManagedTensor, 64);
FREEZE_FIELD(DLManagedTensor, dl_tensor, 0, 48);
FREEZE_FIELD(DLManagedTensor, manager_ctx, 48, 8);
FREEZE_FIELD(DLManagedTensor, deleter, 56, 8);
FREEZE_SIZE(DLManagedTensorVersioned, 80);
FREEZE_FIELD(DLManagedTensorVersioned, version, 0, 8);
FREEZE_FIELD(DLManagedTensorVersioned, manager_ctx, 8, 8);
FREEZE_FIELD(DLManagedTensorVersioned, deleter, 16, 8);
FREEZE_FIELD(DLManagedTensorVersioned, flags, 24, 8);
FREEZE_FIELD(DLManagedTensorVersioned, dl_tensor, 32, 48);
FREEZE(device_type_cpu, (int)kDLCPU == 1 && (int)kDLCUDA == 2 && (int)kDLCUDAHost == 3);
FREEZE(device_type_other, (int)kDLExtDev == 12 && (int)kDLCUDAManaged == 13);

/* A dtype is the image of DLPack's: code | bits << 8 | lanes << 16. */
#define FREEZE_DTYPE(name, code, bits) FREEZE(dtype_##name, (name) == ((unsigned)(code) | (bits) << 8 | 1u << 16))
FREEZE_DTYPE(KINA_DTYPE_BOOL, kDLBool, 8u);
FREEZE_DTYPE(KINA_DTYPE_U8, kDLUInt, 8u);
FREEZE_DTYPE(KINA_DTYPE_I8, kDLInt, 8u);
FREEZE_DTYPE(KINA_DTYPE_U16, kDLUInt, 16u);
FREEZE_DTYPE(KINA_DTYPE_I16, kDLInt, 16u);
FREEZE_DTYPE(KINA_DTYPE_U32, kDLUInt, 32u);
FREEZE_DTYPE(KINA_DTYPE_I32, kDLInt, 32u);
FREEZE_DTYPE(KINA_DTYPE_U64, kDLUInt, 64u);
FREEZE_DTYPE(KINA_DTYPE_I64, kDLInt, 64u);
FREEZE_DTYPE(KINA_DTYPE_F16, kDLFloat, 16u);
FREEZE_DTYPE(KINA_DTYPE_BF16, kDLBfloat, 16u);
FREEZE_DTYPE(KINA_DTYPE_F32, kDLFloat, 32u);
FREEZE_DTYPE(KINA_DTYPE_F64, kDLFloat, 64u);
FREEZE_DTYPE(KINA_DTYPE_C64, kDLComplex, 64u);
FREEZE_DTYPE(KINA_DTYPE_C128, kDLComplex, 128u);
#if DLPACK_MINOR_VERSION >= 1 /* the 8-bit floats came with 1.1 */
FREEZE_DTYPE(KINA_DTYPE_F8E4M3FN, kDLFloat8_e4m3fn, 8u);
FREEZE_DTYPE(KINA_DTYPE_F8E5M2, kDLFloat8_e5m2, 8u);
#endif

/* A tensor is a DLTensor without a cast, and each initialiser fits its struct. */
const DLTensor *freeze_tensor_as_dlpack(const KinaTensor *tensor);
const DLTensor *freeze_tensor_as_dlpack(const KinaTensor *tensor) { return &tensor->dl; }
uint32_t freeze_initialisers(void);
uint32_t freeze_initialisers(void) {
    const KinaTensor tensor = KINA_TENSOR_INIT;
    const KinaMatmulParams matmul = KINA_MATMUL_PARAMS_INIT;
    const KinaPoolParams pool = KINA_POOL_PARAMS_INIT;
    const KinaCudaAsyncParams cuda_async = KINA_CUDA_ASYNC_PARAMS_INIT;
    const KinaLoggingParams logging = KINA_LOGGING_PARAMS_INIT;
    const KinaDlpackParams dlpack = KINA_DLPACK_PARAMS_INIT;
    const KinaResourceVtable vtable = KINA_RESOURCE_VTABLE_INIT;
    return tensor.magic + matmul.struct_size + pool.struct_size + cuda_async.struct_size + logging.struct_size +
           dlpack.struct_size + vtable.struct_size;
}

/* Callbacks: a pointer to a function declared with the frozen signature must be one of them. */
KinaStatus freeze_allocate(void **out, void *context, uint64_t bytes, uint64_t alignment, KinaStream stream);
KinaStatus freeze_deallocate(void *context, void *data, uint64_t bytes, uint64_t alignment, KinaStream stream);
void freeze_destroy(void *context);
void freeze_log(void *context, int32_t level, const char *message);
void freeze_row(void *context, const KinaLogRow *row);
typedef struct FreezeCallbacks {
    KinaAllocateCallback allocate;
    KinaDeallocateCallback deallocate;
    KinaDestroyCallback destroy;
    KinaLogCallback log;
    KinaLogRowCallback row;
} FreezeCallbacks;
void freeze_callbacks(FreezeCallbacks *to);
void freeze_callbacks(FreezeCallbacks *to) {
    to->allocate = freeze_allocate;
    to->deallocate = freeze_deallocate;
    to->destroy = freeze_destroy;
    to->log = freeze_log;
    to->row = freeze_row;
}

/* Signatures: a second declaration that differs from the header's does not compile. */
uint32_t runtime_abi_version(void);
const char *runtime_version_string(void);
int32_t runtime_has_feature(KinaFeature feature);
KinaStatus runtime_field_layout(uint64_t *offset, uint64_t *bytes, const char *type, const char *field);
const char *runtime_status_name(KinaStatus status);
const char *runtime_last_error_message(void);
KinaStatus runtime_last_error(KinaErrorInfo *out);
void runtime_clear_last_error(void);
KinaStatus runtime_set_log_callback(KinaLogCallback callback, void *context, KinaLogLevel level);
KinaStatus runtime_device_count(int32_t *out, int32_t device_type);
KinaStatus runtime_device_info(KinaDeviceInfo *out, int32_t device_type, int32_t device_id);
KinaStatus runtime_device_can_access(int32_t *out, int32_t device_type, int32_t device_id, int32_t peer_id);
KinaStatus runtime_device_synchronize(int32_t device_type, int32_t device_id);
KinaStatus runtime_device_push(KinaScope *out, int32_t device_type, int32_t device_id);
KinaStatus runtime_stream_main(KinaStream *out, int32_t device_type, int32_t device_id);
KinaStatus runtime_stream_checkout(KinaStream *out, int32_t device_type, int32_t device_id);
KinaStatus runtime_stream_checkin(KinaStream stream);
KinaStatus runtime_stream_import(KinaStream *out, int32_t device_type, int32_t device_id, void *native);
KinaStatus runtime_stream_release(KinaStream stream);
KinaStatus runtime_stream_native(void **out, KinaStream stream);
KinaStatus runtime_stream_synchronize(KinaStream stream);
KinaStatus runtime_stream_query(int32_t *out, KinaStream stream);
KinaStatus runtime_stream_wait(KinaStream stream, KinaStream awaited);
KinaStatus runtime_stream_current(KinaStream *out, int32_t device_type, int32_t device_id);
KinaStatus runtime_stream_phase(KinaStream *out, int32_t device_type, int32_t device_id, int32_t phase);
KinaStatus runtime_stream_push(KinaScope *out, KinaStream stream);
KinaStatus runtime_phase_push(KinaScope *out, int32_t phase);
KinaStatus runtime_redirect_push(KinaScope *out, KinaStream stream);
KinaStatus runtime_capture_push(KinaScope *out, KinaStream stream, KinaResource resource);
KinaStatus runtime_scope_pop(KinaScope scope);
KinaStatus runtime_resource_host(KinaResource *out);
KinaStatus runtime_resource_cuda(KinaResource *out, int32_t device_id);
KinaStatus runtime_resource_cuda_async(KinaResource *out, int32_t device_id, const KinaCudaAsyncParams *params);
KinaStatus runtime_resource_pool(KinaResource *out, KinaResource upstream, const KinaPoolParams *params);
KinaStatus runtime_resource_logging(KinaResource *out, KinaResource upstream, const KinaLoggingParams *params);
KinaStatus runtime_resource_limit(KinaResource *out, KinaResource upstream, uint64_t maximum_bytes);
KinaStatus runtime_resource_custom(KinaResource *out, int32_t device_type, int32_t device_id, const KinaResourceVtable *vtable, void *context);
KinaStatus runtime_resource_release(KinaResource resource);
KinaStatus runtime_resource_info(KinaResourceInfo *out, KinaResource resource);
KinaStatus runtime_resource_trim(uint64_t *released_bytes, KinaResource resource, uint64_t keep_bytes);
KinaStatus runtime_resource_set_default(KinaResource *previous, int32_t device_type, int32_t device_id, KinaResource resource);
KinaStatus runtime_resource_push(KinaScope *out, KinaResource resource);
KinaStatus runtime_resource_current(KinaResource *out, int32_t device_type, int32_t device_id);
KinaStatus runtime_memory_allocate(void **out, KinaResource resource, uint64_t bytes, uint64_t alignment, KinaStream stream);
KinaStatus runtime_memory_deallocate(KinaResource resource, void *data, uint64_t bytes, uint64_t alignment, KinaStream stream);
KinaStatus runtime_alloc(KinaTensor *out, const int64_t *shape, int32_t ndim, KinaDtype dtype, int32_t device_type, int32_t device_id, KinaStream stream);
KinaStatus runtime_free(KinaTensor *tensor);
KinaStatus runtime_view(KinaTensor *out, const KinaTensor *in, const int64_t *shape, const int64_t *strides, int32_t ndim, int64_t offset_elements, uint32_t flags);
KinaStatus runtime_alias(KinaTensor *out, const KinaTensor *in);
KinaStatus runtime_wrap(KinaTensor *out, const DLTensor *source, uint64_t size_bytes, KinaStream stream, uint32_t flags);
KinaStatus runtime_tensor_synchronize(const KinaTensor *tensor);
KinaStatus runtime_tensor_record_use(const KinaTensor *tensor, KinaStream stream, KinaAccess access);
KinaStatus runtime_overlap(KinaOverlap *out, const KinaTensor *a, const KinaTensor *b);
KinaStatus runtime_is_exclusive(int32_t *out, const KinaTensor *tensor);
KinaStatus runtime_byte_range(KinaByteRange *out, const KinaTensor *tensor);
KinaStatus runtime_failure_set(uint64_t *failure, const KinaTensor *tensor, uint64_t cause, KinaStatus status, const char *message);
KinaStatus runtime_failure_get(KinaFailureInfo *out, const KinaTensor *tensor);
KinaStatus runtime_failure_clear(int32_t *was_failed, const KinaTensor *tensor);
KinaStatus runtime_weak_create(KinaWeak *out, const KinaTensor *tensor);
KinaStatus runtime_weak_upgrade(KinaTensor *out, KinaWeak weak);
KinaStatus runtime_weak_release(KinaWeak weak);
KinaStatus runtime_peer_share(KinaPeer *out, const KinaTensor *tensor);
KinaStatus runtime_peer_open(KinaTensor *out, KinaPeer peer, int32_t device_type, int32_t device_id);
KinaStatus runtime_peer_release(KinaPeer peer);
KinaStatus runtime_to_dlpack(struct DLManagedTensorVersioned **out, KinaTensor *tensor, const KinaDlpackParams *params);
KinaStatus runtime_from_dlpack(KinaTensor *out, struct DLManagedTensorVersioned *managed, const KinaDlpackParams *params);
KinaStatus runtime_to_dlpack_legacy(struct DLManagedTensor **out, KinaTensor *tensor, const KinaDlpackParams *params);
KinaStatus runtime_from_dlpack_legacy(KinaTensor *out, struct DLManagedTensor *managed, const KinaDlpackParams *params);
KinaStatus runtime_copy_to_device(KinaTensor *out, const KinaTensor *in, int32_t device_id);
KinaStatus runtime_copy_to_host(KinaTensor *out, const KinaTensor *in);
KinaStatus runtime_copy(KinaTensor *out, const KinaTensor *in, int32_t device_type, int32_t device_id);
KinaStatus runtime_fill(KinaTensor *tensor, const void *value, uint64_t value_bytes);
KinaStatus runtime_gpu_unary(KinaTensor *out, const KinaTensor *in, KinaUnaryOp op);
KinaStatus runtime_gpu_binary(KinaTensor *out, const KinaTensor *a, const KinaTensor *b, KinaBinaryOp op);
KinaStatus runtime_gpu_cast(KinaTensor *out, const KinaTensor *in, KinaDtype target);
KinaStatus runtime_gpu_reduce(KinaTensor *out, const KinaTensor *in, int32_t axis, KinaReduceOp op);
KinaStatus runtime_gpu_softmax(KinaTensor *out, const KinaTensor *in, int32_t axis);
KinaStatus runtime_gpu_log_softmax(KinaTensor *out, const KinaTensor *in, int32_t axis);
KinaStatus runtime_gpu_matmul(KinaTensor *out, const KinaTensor *a, const KinaTensor *b, const KinaMatmulParams *params);
KinaStatus runtime_gpu_gather(KinaTensor *out, const KinaTensor *values, const KinaTensor *indices);
KinaStatus runtime_gpu_gather_axis(KinaTensor *out, const KinaTensor *values, const KinaTensor *indices, int32_t axis);
KinaStatus runtime_gpu_repeat_interleave(KinaTensor *out, const KinaTensor *in, int32_t axis, int32_t repeats);
KinaStatus runtime_gpu_transpose(KinaTensor *out, const KinaTensor *in, const int32_t *permutation);
KinaStatus runtime_gpu_reshape(KinaTensor *out, const KinaTensor *in, const int64_t *new_shape, int32_t new_ndim);
KinaStatus runtime_gpu_broadcast(KinaTensor *out, const KinaTensor *in, const int64_t *target_shape, int32_t target_ndim);
KinaStatus runtime_gpu_slice(KinaTensor *out, const KinaTensor *in, int32_t axis, int64_t start, int64_t stop);
KinaStatus runtime_gpu_concat(KinaTensor *out, const KinaTensor *a, const KinaTensor *b, int32_t axis);
KinaStatus runtime_gpu_concat_n(KinaTensor *out, const KinaTensor *const *inputs, int32_t count, int32_t axis);

#ifdef __cplusplus
}
#endif
