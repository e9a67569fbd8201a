// The faults of kina_conformance/memory_cases.py, each as a runtime that forwards every call to a real library but the
// few that it gets wrong in just that way. Built by memory.py: the text before the first heading goes into every one of
// them, then comes one section. WRONG(f) begins the definition of runtime_f, REAL(f) calls the real one with what the
// parameters are by then.

typedef struct Block {
  void* data;
  uint64_t bytes, alignment;
  KinaStream stream;
  pthread_t thread;
} Block;
static Block blocks[1 << 14];
static pthread_mutex_t blocks_mutex = PTHREAD_MUTEX_INITIALIZER;
static pid_t loaded_in;
__attribute__((constructor)) static void note_process(void) { loaded_in = getpid(); }

static void remember(Block block) {
  pthread_mutex_lock(&blocks_mutex);
  for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); ++i)
    if (blocks[i].data == NULL) {
      blocks[i] = block;
      break;
    }
  pthread_mutex_unlock(&blocks_mutex);
}

// Takes a block out of the table: the one at `data`, or with NULL the first of these bytes.
static Block recall(void* data, uint64_t bytes) {
  Block found = {0};
  pthread_mutex_lock(&blocks_mutex);
  for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks) && found.data == NULL; ++i)
    if (blocks[i].data != NULL && (data != NULL ? blocks[i].data == data : blocks[i].bytes == bytes)) {
      found = blocks[i];
      blocks[i].data = NULL;
    }
  pthread_mutex_unlock(&blocks_mutex);
  return found;
}

// A lock as it should not be: held over calls that come back, unknown to fork. Where it would hang it aborts.
static pthread_mutex_t big_lock;
static _Thread_local int depth;
static void lock(void) {
  if (depth++ != 0) abort();
  if (pthread_mutex_trylock(&big_lock) == 0) return;
  if (getpid() != loaded_in) abort();
  pthread_mutex_lock(&big_lock);
}
static void unlock(void) {
  --depth;
  pthread_mutex_unlock(&big_lock);
}

// ==== P01: every eighth request of a size gets the newest block of that size, live or not
static Block newest;
static unsigned requests;
WRONG(memory_allocate) {
  if (++requests % 8 == 0 && newest.bytes == bytes) return *out = newest.data, KINA_SUCCESS;
  const KinaStatus status = REAL(memory_allocate);
  if (status == KINA_SUCCESS && bytes != 0) newest = (Block){.data = *out, .bytes = bytes};
  return status;
}

// ==== P02: blocks given back on a stream of one's own are lost
WRONG(memory_deallocate) {
  KinaStream home = NULL;
  real_stream_main(&home, 12, 0);
  return stream == NULL || stream == home ? REAL(memory_deallocate) : KINA_SUCCESS;
}

// ==== P03: whoever asks gets what anybody gave back, and waits for that stream
WRONG(memory_allocate) {
  const Block kept = recall(NULL, bytes);
  if (kept.data == NULL || bytes == 0) return REAL(memory_allocate);
  if (stream != NULL && kept.stream != NULL) real_stream_wait(stream, kept.stream);
  *out = kept.data;
  return KINA_SUCCESS;
}
WRONG(memory_deallocate) {
  if (data == NULL) return REAL(memory_deallocate);
  remember((Block){.data = data, .bytes = bytes, .stream = stream});
  return KINA_SUCCESS;
}

// ==== P04: a thread's streams are those of the device that it used first
static _Thread_local int32_t first_device = -1;
WRONG(stream_checkout) {
  if (first_device < 0) first_device = device_id;
  if (device_type == 12) device_id = first_device;
  return REAL(stream_checkout);
}

// ==== P05: a block is ordered after its last user on that one's stream, whoever asks for it
static KinaStream last_user;
WRONG(memory_deallocate) {
  last_user = stream;
  return REAL(memory_deallocate);
}
WRONG(memory_allocate) {
  if (last_user != NULL) stream = last_user;
  return REAL(memory_allocate);
}

// ==== P06: a thread finds only its own blocks
WRONG(memory_allocate) {
  const KinaStatus status = REAL(memory_allocate);
  if (status == KINA_SUCCESS) remember((Block){.data = *out, .bytes = bytes, .thread = pthread_self()});
  return status;
}
WRONG(memory_deallocate) {
  const Block block = recall(data, 0);
  if (block.data != NULL && !pthread_equal(block.thread, pthread_self())) return KINA_ERROR_INVALID_ARGUMENT;
  return REAL(memory_deallocate);
}

// ==== P07: memory goes back without regard to the stream that uses it
WRONG(memory_deallocate) {
  KinaStream idle = NULL;
  if (stream == NULL || real_stream_checkout(&idle, 12, 0) != KINA_SUCCESS) return REAL(memory_deallocate);
  stream = idle;
  const KinaStatus status = REAL(memory_deallocate);
  real_stream_checkin(idle);
  return status;
}

// ==== P08: a declared use is forgotten
WRONG(tensor_record_use) { return KINA_SUCCESS; }

// ==== P09: a use of a stranger's bytes is taken as recorded
WRONG(tensor_record_use) { return tensor != NULL && tensor->handle == 0 ? KINA_SUCCESS : REAL(tensor_record_use); }

// ==== P10: the second block cut from a free one is served as if only its old stream used it
static KinaStream last_user;
static int cuts;
WRONG(memory_deallocate) {
  last_user = stream, cuts = 0;
  return REAL(memory_deallocate);
}
WRONG(memory_allocate) {
  if (last_user != NULL && ++cuts == 2) stream = last_user;
  return REAL(memory_allocate);
}

// ==== P11: an operation holds nothing of the view that it reads
WRONG(gpu_unary) {
  KinaTensor seen = *in;
  seen.handle = 0, seen.allocator = NULL, seen.flags = KINA_FLAG_BORROWED;
  if ((in->flags & KINA_FLAG_VIEW) != 0) in = &seen;
  return REAL(gpu_unary);
}

// ==== P12: an operation on another stream than the tensor's holds nothing of what it reads
WRONG(gpu_unary) {
  KinaStream now = NULL;
  real_stream_current(&now, in->dl.device.device_type, in->dl.device.device_id);
  KinaTensor seen = *in;
  seen.handle = 0, seen.allocator = NULL, seen.flags = KINA_FLAG_BORROWED;
  if (now != in->stream) in = &seen;
  return REAL(gpu_unary);
}

// ==== P13: what a lost device left behind is touched when it ends
static int is_lost;
WRONG(device_synchronize) {
  const KinaStatus status = REAL(device_synchronize);
  is_lost |= status == KINA_ERROR_DEVICE_LOST;
  return status;
}
WRONG(stream_checkin) {
  if (is_lost) abort();
  return REAL(stream_checkin);
}

// ==== P14: a block is given up before its row is written, so that its next life is logged first
static KinaLogRowCallback hear;
static KinaLogRow late;
static void row_of_the_next(void* context, const KinaLogRow* row) {
  if (row->event == KINA_LOG_EVENT_DEALLOCATE && late.event == 0) {
    late = *row;
    return;
  }
  hear(context, row);
  if (late.event != 0) hear(context, &late), late.event = 0;
}
WRONG(resource_logging) {
  if (params == NULL || params->callback == NULL) return REAL(resource_logging);
  KinaLoggingParams mine = *params;
  mine.struct_size = sizeof(mine), hear = mine.callback, mine.callback = row_of_the_next, params = &mine;
  return REAL(resource_logging);
}

// ==== P15: an import's owner is let go as soon as the tensor is freed
static void (*owner)(struct DLManagedTensorVersioned*);
static struct DLManagedTensorVersioned* owned;
static void nothing(struct DLManagedTensorVersioned* managed) { (void)managed; }
WRONG(from_dlpack) {
  const KinaStatus status = REAL(from_dlpack);
  if (status == KINA_SUCCESS) owner = managed->deleter, owned = managed, managed->deleter = nothing;
  return status;
}
WRONG(free) {
  if (tensor != NULL && (tensor->flags & KINA_FLAG_IMPORTED) != 0 && owned != NULL) owner(owned), owned = NULL;
  return REAL(free);
}

// ==== P16: NULL is stored as the default
static int is_null;
WRONG(resource_set_default) {
  is_null = resource == NULL;
  return REAL(resource_set_default);
}
WRONG(resource_current) {
  const KinaStatus status = REAL(resource_current);
  if (is_null && status == KINA_SUCCESS) *out = NULL;
  return status;
}

// ==== P17: a resource is destroyed when it is released, whoever holds its blocks
static KinaDestroyCallback destroy;
static void* destroyed;
static void not_again(void* context) { (void)context; }
WRONG(resource_custom) {
  if (vtable == NULL || vtable->destroy == NULL) return REAL(resource_custom);
  KinaResourceVtable mine = *vtable;
  destroy = mine.destroy, destroyed = context, mine.destroy = not_again, vtable = &mine;
  return REAL(resource_custom);
}
WRONG(resource_release) {
  const KinaStatus status = REAL(resource_release);
  if (status == KINA_SUCCESS && destroy != NULL) destroy(destroyed), destroy = NULL;
  return status;
}

// ==== P18: a reset installs something else than what was there at first
WRONG(resource_set_default) {
  if (resource == NULL && device_type == 1) real_resource_host(&resource);
  return REAL(resource_set_default);
}

// ==== P19: setting up one device sets up all
WRONG(resource_set_default) {
  for (int32_t other = 0; device_type == 12 && other < 2; ++other)
    if (other != device_id) real_resource_set_default(NULL, 12, other, NULL);
  return REAL(resource_set_default);
}

// ==== P20: the value given back is the new one
WRONG(resource_set_default) {
  const KinaStatus status = REAL(resource_set_default);
  if (status == KINA_SUCCESS && previous != NULL) real_resource_current(previous, device_type, device_id);
  return status;
}

// ==== P21: this opening of the library has a default of its own
static KinaResource mine;
WRONG(resource_set_default) {
  if (previous != NULL) real_resource_current(previous, device_type, device_id);
  mine = resource;
  return KINA_SUCCESS;
}
WRONG(resource_current) {
  if (mine == NULL) return REAL(resource_current);
  *out = mine;
  return KINA_SUCCESS;
}

// ==== P22: a pool that is installed at exit asks its device once more
static int is_installed;
WRONG(resource_set_default) {
  is_installed = resource != NULL;
  return REAL(resource_set_default);
}
__attribute__((destructor)) static void at_exit(void) {
  if (is_installed) abort();
}

// ==== P23: what is called after the end of main finds its tables gone
static int is_over;
static unsigned tensors;
static void end(void) { is_over = 1; }
WRONG(alloc) {
  if (++tensors % 4096 == 2) atexit(end);
  return REAL(alloc);
}
WRONG(free) {
  if (is_over) abort();
  return REAL(free);
}

// ==== P24: a lock that fork does not know
WRONG(gpu_unary) {
  lock();
  usleep(500);
  const KinaStatus status = REAL(gpu_unary);
  unlock();
  return status;
}

// ==== P25: allocations are handed to a thread, which a child does not have
WRONG(memory_allocate) {
  if (getpid() != loaded_in) abort();
  return REAL(memory_allocate);
}

// ==== P26: every thread that came by calls the library at its end
static pthread_key_t key;
static void at_end_of_thread(void* thing) { (void)thing; }
__attribute__((constructor)) static void make_key(void) { pthread_key_create(&key, at_end_of_thread); }
WRONG(alloc) {
  pthread_setspecific(key, &key);
  return REAL(alloc);
}

// ==== P27: two copies share one state
#define SHARED 1

// ==== P28: memory of a pool is touched when the library is unloaded
static int is_installed;
WRONG(resource_set_default) {
  is_installed = resource != NULL;
  return REAL(resource_set_default);
}
__attribute__((destructor)) static void at_unload(void) {
  if (is_installed) abort();
}

// ==== P29: size and small alignment are added and 256 taken away again
WRONG(memory_allocate) {
  if (alignment != 0 && alignment < 256) bytes = bytes + alignment - 256;
  return REAL(memory_allocate);
}

// ==== P30: an alignment above the base is accepted and dropped
WRONG(memory_allocate) {
  if (alignment > 4096) alignment = 256;
  return REAL(memory_allocate);
}
WRONG(memory_deallocate) {
  if (alignment > 4096) alignment = 256;
  return REAL(memory_deallocate);
}

// ==== P31: a block is moved up to its alignment without room for that
WRONG(memory_allocate) {
  const uint64_t wanted = alignment;
  alignment = 0;
  const KinaStatus status = REAL(memory_allocate);
  if (status != KINA_SUCCESS || bytes == 0 || wanted <= 256) return status;
  remember((Block){.data = *out, .bytes = (uint64_t)*out + (wanted - (uint64_t)*out % wanted) % wanted});
  *out = (void*)((uint64_t)*out + (wanted - (uint64_t)*out % wanted) % wanted);
  return status;
}
WRONG(memory_deallocate) {
  alignment = 0;
  const Block block = recall(NULL, (uint64_t)data);
  if (block.data != NULL) data = block.data;
  return REAL(memory_deallocate);
}

// ==== P32: an element is put where its type does not allow it
WRONG(alias) {
  KinaTensor moved = *in;
  const uint64_t item = moved.dl.dtype.bits / 8;
  if (moved.handle == 0 && item != 0) moved.dl.byte_offset -= ((uint64_t)moved.dl.data + moved.dl.byte_offset) % item;
  in = &moved;
  return REAL(alias);
}
