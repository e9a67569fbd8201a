// Parameters on their way from pointers to references: one class per kind, three steps in the order of the error tiers.
#pragma once

#include <cstring>
#include <type_traits>

#include "impl/core/device.h"
#include "impl/core/operand.h"

namespace kina {

// Tensors have a fourth step: what they ask for is offered here.
template <class Argument>
void offer(const Argument& argument) {
  if constexpr (requires { argument.offer(); }) argument.offer();
}

// Takes all parameters of a call through tier 1 (NULL, struct_size, magic), tier 2 (handles), and the parts of tiers 3
// and 4 that a parameter can break alone. Write it first in every entry point.
template <class... Arguments>
void dereference(Arguments&... arguments) {
  (arguments.present(), ...);
  (arguments.resolve(), ...);
  (arguments.validate(), ...);
  (offer(arguments), ...);
}

// The same without tier 4, for calls that have checks of tier 3 in between: they end with `offer`.
template <class... Arguments>
void dereference_values(Arguments&... arguments) {
  (arguments.present(), ...);
  (arguments.resolve(), ...);
  (arguments.validate(), ...);
}

// Calls f for the tensor that an argument is, or for each of those that it holds.
template <class Argument, class F>
void for_each_operand(const Argument& argument, F&& f) {
  if constexpr (std::is_base_of_v<Operand, Argument>)
    f(argument);
  else if constexpr (requires { argument.for_each_operand(f); })
    argument.for_each_operand(f);
}

// `dereference` for operations whose tensors all live on one device: that they name different ones counts before one of
// these devices is found to be absent.
template <class... Arguments>
void dereference_on_one_device(Output& out, Arguments&... arguments) {
  dereference_values(out, arguments...);
  const Operand* first = nullptr;
  const auto agree = [&first](const Operand& input) {
    if (first == nullptr)
      first = &input;
    else
      require_same_place(*first, input, "KINA-TENSOR-31");
  };
  (for_each_operand(arguments, agree), ...);
  if (first != nullptr && !out.is_empty()) require_same_place(*first, out, "KINA-TENSOR-26");
  offer(out);
  (offer(arguments), ...);
}

// A pointer that must not be NULL.
template <class T>
class Pointer {
 public:
  Pointer(T* pointer, Argument argument) : pointer_(pointer), argument_(argument) {}
  void present() const {
    require<Message::null_pointer>(pointer_ != nullptr, "KINA-STATUS-23", argument_, argument_.name);
  }
  void resolve() const {}
  void validate() const {}
  T& operator*() const { return *pointer_; }
  T* get() const { return pointer_; }
  Argument argument() const { return argument_; }

 private:
  T* pointer_;
  Argument argument_;
};

// An array of `count` entries, which may be NULL where it has none.
class ArrayArgument {
 public:
  ArrayArgument(const void* first, int32_t count, Argument argument, const char* clause)
      : first_(first), count_(count), argument_(argument), clause_(clause) {}
  void present() const {
    require<Message::null_pointer>(first_ != nullptr || count_ <= 0, clause_, argument_, argument_.name);
  }
  void resolve() const {}
  void validate() const {}

 private:
  const void* first_;
  int32_t count_;
  Argument argument_;
  const char* clause_;
};

enum class Null : uint8_t { refused, allowed };

// A handle of an object that does not end while the call runs: its `look_up` sees to that. With Null::allowed an absent
// one is empty.
template <class Handle, class T>
class HandleArgument {
 public:
  HandleArgument(Handle handle, Argument argument, HandleTable<T>& table, Kind kind, Null null = Null::refused)
      : handle_(handle), argument_(argument), table_(table), kind_(kind), null_(null) {}
  void present() const {
    require<Message::null_handle>(handle_ != nullptr || null_ == Null::allowed, "KINA-STATUS-28", argument_,
                                  argument_.name);
  }
  // In the call itself: a part of its own would want the argument in memory.
  [[gnu::always_inline]] void resolve() {
    if (handle_ == nullptr) return;
    object_ = look_up(table_, value_of(handle_));
    if (!object_) [[unlikely]]
      refuse<Message::stale_handle>("KINA-STATUS-26", argument_, argument_.name, word_of(kind_));
  }
  void validate() const {}
  T& operator*() const { return *object_; }
  T* operator->() const { return get(); }
  T* get() const { return object_ ? &*object_ : nullptr; }
  explicit operator bool() const { return bool(object_); }
  Argument argument() const { return argument_; }

 private:
  Handle handle_;
  Argument argument_;
  HandleTable<T>& table_;
  Kind kind_;
  Null null_;
  decltype(look_up(table_, 0)) object_{};
};

class StreamArgument : public HandleArgument<KinaStream, Stream> {
 public:
  StreamArgument(KinaStream handle, Argument argument, Null null = Null::refused)
      : HandleArgument(handle, argument, streams(), Kind::stream, null) {}
};

class ResourceArgument : public HandleArgument<KinaResource, Resource> {
 public:
  ResourceArgument(KinaResource handle, Argument argument, Null null = Null::refused)
      : HandleArgument(handle, argument, resources(), Kind::resource, null) {}
};

// Checks `struct_size` of an option or output struct of at least `known` bytes; see the version chapter.
void require_struct_size(uint32_t struct_size, size_t known, Argument argument);
void require_zero_tail(const void* structure, uint32_t struct_size, size_t known, Argument argument);

// Tier 4: the bits of a flags word.
[[noreturn]] void refuse_flags(uint32_t unknown, const char* clause, Argument argument);
inline void require_known_flags(uint32_t flags, uint32_t known, const char* clause, Argument argument) {
  if ((flags & ~known) != 0) [[unlikely]]
    refuse_flags(flags & ~known, clause, argument);
}

// An option struct: NULL means all defaults. A copy of what the caller gave, as far as it is known here.
template <class T>
class Options {
 public:
  Options(const T* given, Argument argument, Null null = Null::allowed)
      : given_(given), argument_(argument), null_(null) {}
  void present() {
    require<Message::null_pointer>(given_ != nullptr || null_ == Null::allowed, "KINA-STATUS-23", argument_,
                                   argument_.name);
    if (given_ == nullptr) return;
    require_struct_size(given_->struct_size, sizeof(T), argument_);
    require_zero_tail(given_, given_->struct_size, sizeof(T), argument_);
    std::memcpy(&value_, given_, sizeof(T));
  }
  void resolve() const {}
  void validate() const {}
  const T* operator->() const { return &value_; }
  const T& operator*() const { return value_; }
  Argument argument() const { return argument_; }
  // Tier 1 as well: call it right after `present` for each reserved field.
  void require_reserved(uint64_t field) const {
    require<Message::struct_reserved>(field == 0, "KINA-VERSION-14", argument_, argument_.name);
  }

 private:
  const T* given_;
  Argument argument_;
  Null null_;
  T value_{};
};

// An output struct that starts with struct_size.
template <class T>
class OutputStruct {
 public:
  OutputStruct(T* out, Argument argument) : out_(out), argument_(argument) {}
  void present() const {
    require<Message::null_pointer>(out_ != nullptr, "KINA-STATUS-23", argument_, argument_.name);
    require_struct_size(out_->struct_size, sizeof(T), argument_);
  }
  void resolve() const {}
  void validate() const {}
  // Fills what the library knows, zeroes the rest, leaves struct_size.
  void publish(T value) const {
    value.struct_size = out_->struct_size;
    std::memcpy(out_, &value, sizeof(T));
    std::memset(reinterpret_cast<std::byte*>(out_) + sizeof(T), 0, value.struct_size - sizeof(T));
  }

 private:
  T* out_;
  Argument argument_;
};

}  // namespace kina
