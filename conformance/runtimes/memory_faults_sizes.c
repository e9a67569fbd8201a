// More of memory_faults.c: sizes, growth, exhaustion, counters, callbacks and devices.

// ==== P33: a size near the maximum rounds to nothing
static char nothing[256];
WRONG(memory_allocate) {
  if (bytes > UINT64_MAX - 256) return *out = nothing, KINA_SUCCESS;
  return REAL(memory_allocate);
}

// ==== P34: the product of the extents wraps
WRONG(alloc) {
  uint64_t count = 1;
  for (int32_t i = 0; shape != NULL && i < ndim; ++i)
    if (shape[i] > 0 && __builtin_mul_overflow(count, (uint64_t)shape[i], &count)) ndim = 0;
  return REAL(alloc);
}

// ==== P35: a size near the maximum reads behind the tables
WRONG(memory_allocate) {
  if (bytes >> 40 != 0) raise(SIGSEGV);
  return REAL(memory_allocate);
}

// ==== P36: bytes are counted in 32 bits
WRONG(last_error) {
  const KinaStatus status = REAL(last_error);
  if (status == KINA_SUCCESS) out->requested_bytes = (uint32_t)out->requested_bytes;
  return status;
}

// ==== P37: rounding up overflows into a small block
WRONG(memory_allocate) {
  if (bytes > UINT64_MAX - 256) bytes = 256;
  return REAL(memory_allocate);
}

// ==== P38: the block of zero bytes is looked up
WRONG(memory_deallocate) {
  if (data == NULL) raise(SIGSEGV);
  return REAL(memory_deallocate);
}

// ==== P39: small blocks are cut from pieces for large ones
WRONG(memory_allocate) {
  if (bytes != 0 && bytes <= 4096) bytes = 1 << 20;
  return REAL(memory_allocate);
}
WRONG(memory_deallocate) {
  if (data != NULL && bytes <= 4096) bytes = 1 << 20;
  return REAL(memory_deallocate);
}

// ==== P40: a block that came back serves its own size alone
WRONG(memory_allocate) {
  const Block kept = recall(NULL, bytes);
  if (kept.data == NULL || bytes == 0) return REAL(memory_allocate);
  *out = kept.data;
  return KINA_SUCCESS;
}
WRONG(memory_deallocate) {
  if (bytes < 4096) return REAL(memory_deallocate);
  remember((Block){.data = data, .bytes = bytes});
  return KINA_SUCCESS;
}

// ==== P41: what streams may still use is gone until somebody waits
static Block later[64];
static KinaResource owners[64];
static int waiting;
WRONG(memory_deallocate) {
  if (data == NULL || waiting == 64) return REAL(memory_deallocate);
  owners[waiting] = resource;
  later[waiting++] = (Block){.data = data, .bytes = bytes, .alignment = alignment, .stream = stream};
  return KINA_SUCCESS;
}
WRONG(device_synchronize) {
  const KinaStatus status = REAL(device_synchronize);
  for (; waiting > 0; --waiting) {
    const Block* block = &later[waiting - 1];
    real_memory_deallocate(owners[waiting - 1], block->data, block->bytes, block->alignment, block->stream);
  }
  return status;
}

// ==== P42: what another thread gives back is lost
WRONG(memory_allocate) {
  const KinaStatus status = REAL(memory_allocate);
  if (status == KINA_SUCCESS) remember((Block){.data = *out, .bytes = bytes, .thread = pthread_self()});
  return status;
}
WRONG(memory_deallocate) {
  const Block block = recall(data, 0);
  return pthread_equal(block.thread, pthread_self()) ? REAL(memory_deallocate) : KINA_SUCCESS;
}

// ==== P43: free blocks are found by a size that is padded, and were cut by one that is not
WRONG(memory_allocate) {
  const Block kept = recall(NULL, (bytes + 4095) / 4096);
  if (kept.data == NULL || bytes == 0) return REAL(memory_allocate);
  *out = kept.data;
  return KINA_SUCCESS;
}
WRONG(memory_deallocate) {
  if (data == NULL) return REAL(memory_deallocate);
  remember((Block){.data = data, .bytes = (bytes + 4095) / 4096});
  return KINA_SUCCESS;
}

// ==== P44: a larger successor in a place leaves a remainder that nobody has
static uint64_t place;
WRONG(memory_allocate) {
  void* rest = NULL;
  if (place != 0 && bytes > place) real_memory_allocate(&rest, resource, bytes - place, 0, stream);
  return REAL(memory_allocate);
}
WRONG(memory_deallocate) {
  place = bytes;
  return REAL(memory_deallocate);
}

// ==== P45: the initial size must lie below the maximum
WRONG(resource_pool) {
  if (params != NULL && params->maximum_bytes != 0 && params->initial_bytes >= params->maximum_bytes)
    return KINA_ERROR_INVALID_ARGUMENT;
  return REAL(resource_pool);
}

// ==== P46: a call that ran out of memory keeps a piece
WRONG(gpu_binary) {
  const KinaStatus status = REAL(gpu_binary);
  KinaResource usual = NULL;
  void* kept = NULL;
  if (status == KINA_ERROR_OUT_OF_MEMORY && real_resource_set_default(&usual, 1, 0, NULL) == KINA_SUCCESS) {
    real_resource_set_default(NULL, 1, 0, usual);
    real_memory_allocate(&kept, usual, 64, 0, NULL);
  }
  return status;
}

// ==== P47: once memory has run out nothing can be given back
static int is_out;
WRONG(memory_allocate) {
  const KinaStatus status = REAL(memory_allocate);
  is_out |= status == KINA_ERROR_OUT_OF_MEMORY;
  return status;
}
WRONG(resource_trim) { return is_out ? KINA_ERROR_OUT_OF_MEMORY : REAL(resource_trim); }

// ==== P48: free blocks are kept for their own size while other requests fail
WRONG(memory_allocate) {
  const Block kept = recall(NULL, bytes);
  if (kept.data == NULL || bytes == 0) return REAL(memory_allocate);
  *out = kept.data;
  return KINA_SUCCESS;
}
WRONG(memory_deallocate) {
  if (data == NULL) return REAL(memory_deallocate);
  remember((Block){.data = data, .bytes = bytes});
  return KINA_SUCCESS;
}

// ==== P49: what foreign streams use comes back only when somebody waits for them
static uint64_t used[256];
static unsigned uses;
WRONG(tensor_record_use) {
  if (tensor != NULL) used[uses++ % 256] = tensor->handle;
  return REAL(tensor_record_use);
}
WRONG(free) {
  for (unsigned i = 0; tensor != NULL && tensor->handle != 0 && i < 256; ++i)
    if (used[i] == tensor->handle) {
      memset(tensor, 0, sizeof(*tensor));
      return KINA_SUCCESS;
    }
  return REAL(free);
}

// ==== P50: after one refusal nothing is asked for any more
static KinaAllocateCallback ask;
static _Thread_local int is_refused;
static KinaStatus ask_once(void** out, void* context, uint64_t bytes, uint64_t alignment, KinaStream stream) {
  if (is_refused) return KINA_ERROR_OUT_OF_MEMORY;
  const KinaStatus status = ask(out, context, bytes, alignment, stream);
  is_refused = status == KINA_ERROR_OUT_OF_MEMORY;
  return status;
}
WRONG(resource_custom) {
  if (vtable == NULL || vtable->allocate == NULL) return REAL(resource_custom);
  KinaResourceVtable mine = *vtable;
  ask = mine.allocate, mine.allocate = ask_once, vtable = &mine;
  return REAL(resource_custom);
}
WRONG(memory_allocate) {
  is_refused = 0;
  return REAL(memory_allocate);
}

// ==== P51: one lock for all that allocate
WRONG(memory_allocate) {
  lock();
  const KinaStatus status = REAL(memory_allocate);
  unlock();
  return status;
}

// ==== P52: callbacks run under the allocator's lock
WRONG(memory_allocate) {
  lock();
  const KinaStatus status = REAL(memory_allocate);
  unlock();
  return status;
}

// ==== P53: a release holds a lock while it lets others go
WRONG(free) {
  lock();
  const KinaStatus status = REAL(free);
  unlock();
  return status;
}

// ==== P54: first the limit is looked at, then the bytes are taken
static uint64_t limits;
static KinaResource limited;
WRONG(resource_limit) {
  limits = maximum_bytes, maximum_bytes = UINT64_MAX;
  const KinaStatus status = REAL(resource_limit);
  if (status == KINA_SUCCESS) limited = *out;
  return status;
}
WRONG(memory_allocate) {
  KinaResourceInfo info = {.struct_size = sizeof(info)};
  if (resource != limited || real_resource_info(&info, resource) != KINA_SUCCESS) return REAL(memory_allocate);
  if (bytes > limits || info.live_bytes > limits - bytes) return KINA_ERROR_OUT_OF_MEMORY;
  usleep(500);
  return REAL(memory_allocate);
}

// ==== P57: a request that failed makes no row
static KinaLogRowCallback hear;
static void hear_successes(void* context, const KinaLogRow* row) {
  if (row->status == KINA_SUCCESS) hear(context, row);
}
WRONG(resource_logging) {
  if (params == NULL || params->callback == NULL) return REAL(resource_logging);
  KinaLoggingParams mine = *params;
  mine.struct_size = sizeof(mine), hear = mine.callback, mine.callback = hear_successes, params = &mine;
  return REAL(resource_logging);
}

// ==== P58: a stranger's pointer is subtracted
static uint64_t strangers;
WRONG(memory_deallocate) {
  const KinaStatus status = REAL(memory_deallocate);
  strangers += status == KINA_ERROR_INVALID_ARGUMENT;
  return status;
}
WRONG(resource_info) {
  const KinaStatus status = REAL(resource_info);
  if (status == KINA_SUCCESS) out->live_blocks -= strangers;
  return status;
}

// ==== P59: every row carries a stack
WRONG(resource_logging) {
  if (params == NULL) return REAL(resource_logging);
  KinaLoggingParams mine = *params;
  mine.struct_size = sizeof(mine), mine.flags |= KINA_LOGGING_FRAMES, params = &mine;
  return REAL(resource_logging);
}

// ==== P60: a copy to another device is taken as done
WRONG(copy) {
  if (out != NULL && out->magic != 0 && out->dl.device.device_id != in->dl.device.device_id) return KINA_SUCCESS;
  return REAL(copy);
}

// ==== P61: a device may not be asked about itself
WRONG(device_can_access) { return device_id == peer_id ? KINA_ERROR_INVALID_ARGUMENT : REAL(device_can_access); }

// ==== P62: what was opened before leaves an error behind
static KinaPeer opened;
WRONG(peer_open) {
  if (opened == peer) real_device_synchronize(1, 99);
  opened = peer;
  return REAL(peer_open);
}

// ==== P63: all devices have the first one's resource
WRONG(resource_current) {
  if (device_type == 12) device_id = 0;
  return REAL(resource_current);
}

// ==== P64: every synchronise empties the pool
static KinaResource last_pool;
WRONG(resource_pool) {
  const KinaStatus status = REAL(resource_pool);
  if (status == KINA_SUCCESS) last_pool = *out;
  return status;
}
WRONG(device_synchronize) {
  const KinaStatus status = REAL(device_synchronize);
  if (last_pool != NULL) real_resource_trim(NULL, last_pool, 0);
  return status;
}

// ==== P65: when a capture runs out of memory its pool is emptied
static KinaResource captured;
WRONG(capture_push) {
  captured = resource;
  return REAL(capture_push);
}
WRONG(alloc) {
  const KinaStatus status = REAL(alloc);
  if (status == KINA_ERROR_OUT_OF_MEMORY && captured != NULL) real_resource_trim(NULL, captured, 0);
  return status;
}

// ==== P66: work that is recorded takes its memory from where all other work does
WRONG(capture_push) {
  if (stream != NULL && resource != NULL) real_resource_current(&resource, 12, 0);
  return REAL(capture_push);
}
