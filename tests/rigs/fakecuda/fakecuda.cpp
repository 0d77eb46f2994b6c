// Emulation of CUDA on a CPU build of torch: tensors on cuda:N whose memory is the host's. An operator without a kernel here runs the
// CPU's kernel over the same memory. Memory is counted for each device, with a limit. Nothing runs asynchronously.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/stack.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorShape.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <atomic>

using namespace c10; using at::Tensor; using Sizes = IntArrayRef;

// --- memory

static std::atomic<int64_t> used[8], peak[8], limit_bytes{int64_t(1) << 62}, host_copies{0};
static thread_local int current = 0;

static int device_count() {
  const char* text = getenv("FAKE_CUDA_DEVICES");
  return text ? atoi(text) : 1;
}

static void take(int device, int64_t bytes) {
  int64_t now = (used[device] += bytes);
  if (now > limit_bytes) {
    used[device] -= bytes;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. (emulated) Tried to allocate ", bytes, " bytes");
  }
  int64_t before = peak[device];
  while (now > before && !peak[device].compare_exchange_weak(before, now)) {}
}

struct Piece { void* memory; int64_t bytes; int device; };

static void release(void* context) {
  auto* piece = static_cast<Piece*>(context);
  used[piece->device] -= piece->bytes;
  free(piece->memory);
  delete piece;
}

struct DeviceMemory : Allocator {
  DataPtr allocate(size_t bytes) override {
    take(current, bytes);
    void* memory = bytes ? aligned_alloc(64, (bytes + 63) / 64 * 64) : nullptr;
    return {memory, new Piece{memory, (int64_t)bytes, current}, &release, Device(DeviceType::CUDA, current)};
  }
  DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { memcpy(to, from, bytes); }
};

static DeviceMemory device_memory;

// --- what torch asks a backend for

struct Guard : impl::DeviceGuardImplInterface {
  Guard() = default; explicit Guard(DeviceType) {}
  DeviceType type() const override { return DeviceType::CUDA; }
  Device getDevice() const override { return Device(DeviceType::CUDA, current); }
  void setDevice(Device to) const override { uncheckedSetDevice(to); }
  void uncheckedSetDevice(Device to) const noexcept override { if (to.index() >= 0) current = to.index(); }
  Device exchangeDevice(Device to) const override { Device before = getDevice(); uncheckedSetDevice(to); return before; }
  Stream getStream(Device of) const noexcept override { return Stream(Stream::DEFAULT, of); }
  Stream getDefaultStream(Device of) const override { return Stream(Stream::DEFAULT, of); }
  Stream getNewStream(Device of, int) const override { return Stream(Stream::DEFAULT, of); }
  Stream exchangeStream(Stream stream) const noexcept override { return Stream(Stream::DEFAULT, stream.device()); }
  DeviceIndex deviceCount() const noexcept override { return device_count(); }
  void record(void** event, const Stream&, const DeviceIndex, const EventFlag) const override { *event = (void*)1; }
  void block(void*, const Stream&) const override {} bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {} void synchronizeEvent(void*) const override {}
  void recordDataPtrOnStream(const DataPtr&, const Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

struct CUDAHooks : at::CUDAHooksInterface {
  CUDAHooks(at::CUDAHooksArgs) {}  // torch looks for a class of this name
  void init() const override {}
  bool hasCUDA() const override { return true; } bool hasCUDART() const override { return true; }
  bool isBuilt() const override { return true; } bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex current_device() const override { return current; }
  DeviceIndex deviceCount() const override { return device_count(); }
  int getNumGPUs() const override { return device_count(); }
  void setCurrentDevice(DeviceIndex to) const override { current = to; }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex exchangeDevice(DeviceIndex to) const override { return std::exchange(current, to); }
  DeviceIndex maybeExchangeDevice(DeviceIndex to) const override { return std::exchange(current, to); }
  const at::Generator& getDefaultGenerator(DeviceIndex) const override { return at::detail::getDefaultCPUGenerator(); }
  at::Generator getNewGenerator(DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  Device getDeviceFromPtr(void*) const override { return Device(DeviceType::CUDA, current); }
  Allocator* getPinnedMemoryAllocator() const override { return at::getCPUAllocator(); }
  Allocator* getCUDADeviceAllocator() const override { return &device_memory; }
  void deviceSynchronize(DeviceIndex) const override {}
  std::string showConfig() const override { return "emulated"; }
};
using at::CUDAHooksRegistry; using at::RegistererCUDAHooksRegistry;
REGISTER_CUDA_HOOKS(CUDAHooks);
static const bool is_registered = (SetAllocator(DeviceType::CUDA, &device_memory, 200), true);

// --- operators

static Tensor on_host(const Tensor& tensor) {  // a view of the same memory
  auto* memory = static_cast<char*>(tensor.unsafeGetTensorImpl()->unsafe_storage().mutable_data());
  if (memory) memory += tensor.storage_offset() * tensor.itemsize();
  return at::for_blob(memory, tensor.sizes()).strides(tensor.strides()).deleter([tensor](void*) {})
      .options(at::TensorOptions().dtype(tensor.dtype()).device(DeviceType::CPU)).target_device(Device(DeviceType::CPU)).make_tensor();
}

static Tensor on_device(const Tensor& tensor, int device) {  // takes the memory of a result over
  if (!tensor.defined()) return tensor;
  int64_t bytes = tensor.storage().nbytes();
  take(device, bytes);
  Device place(DeviceType::CUDA, device);
  return at::for_blob(tensor.numel() ? tensor.data_ptr() : nullptr, tensor.sizes()).strides(tensor.strides())
      .deleter([kept = tensor.detach(), bytes, device](void*) { used[device] -= bytes; })
      .options(at::TensorOptions().dtype(tensor.dtype()).device(place)).target_device(place).make_tensor();
}

static const Tensor& resized(const Tensor& self, Sizes size, std::optional<at::MemoryFormat>) {
  auto* impl = self.unsafeGetTensorImpl();
  int64_t needed = impl->itemsize();
  for (auto each : size) needed *= each;
  if ((int64_t)self.storage().nbytes() < needed) {
    auto memory = device_memory.allocate(needed);
    auto storage = impl->unsafe_storage();
    if (storage.nbytes()) memcpy(memory.get(), storage.data(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(memory));
    storage.set_nbytes(needed);
  }
  impl->set_sizes_contiguous(size);
  return self;
}

static IValue put_back(const IValue& original, const IValue& result) {  // an argument that was written, perhaps resized
  if (original.isTensor() && result.isTensor() && original.toTensor().defined()) {
    Tensor self = original.toTensor(), made = result.toTensor();
    if (!self.sizes().equals(made.sizes())) {
      resized(self, made.sizes(), std::nullopt);
      if (made.is_non_overlapping_and_dense()) self.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes(), made.strides());
      on_host(self).copy_(made);
    }
  }
  return original;
}

static void by_the_cpu(const OperatorHandle& op, torch::jit::Stack* stack) {
  at::AutoDispatchBelowADInplaceOrView below;
  impl::ExcludeDispatchKeyGuard no_autocast(DispatchKeySet({DispatchKey::AutocastCUDA, DispatchKey::AutocastCPU}));
  const auto& arguments = op.schema().arguments();
  const auto& returns = op.schema().returns();
  size_t begin = stack->size() - arguments.size();
  std::vector<IValue> originals(stack->begin() + begin, stack->end());
  int device = -1;
  auto down = [&](const Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    if (device < 0) device = tensor.get_device();
    return on_host(tensor);
  };
  for (size_t i = 0; i < arguments.size(); i++) {
    IValue& value = (*stack)[begin + i];
    if (value.isTensor() && arguments[i].is_out() && value.toTensor().defined() && value.toTensor().numel() == 0) {
      Tensor out = value.toTensor();
      down(out);
      value = at::empty({0}, out.options().device(DeviceType::CPU));
    } else if (value.isTensor()) {
      value = down(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (auto& each : list) each = down(each);
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (std::optional<Tensor> each : value.toOptionalTensorList())
        list.push_back(each && each->defined() ? std::optional<Tensor>(down(*each)) : std::nullopt);
      value = list;
    } else if (value.isDevice()) {
      value = Device(DeviceType::CPU);
    }
  }
  op.callBoxed(stack);
  if (device < 0) device = current;
  for (size_t i = 0; i < returns.size(); i++) {
    IValue& value = (*stack)[stack->size() - returns.size() + i];
    const auto* alias = returns[i].alias_info();
    if (alias && alias->isWrite()) {
      for (size_t a = 0; a < arguments.size(); a++) {
        const auto* of_argument = arguments[a].alias_info();
        if (of_argument && of_argument->isWrite() && *of_argument == *alias) { value = put_back(originals[a], value); break; }
      }
    } else if (value.isTensor()) {
      value = on_device(value.toTensor(), device);
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (auto& each : list) each = on_device(each, device);
      value = list;
    }
  }
}

static Tensor empty(Sizes size, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<Device> device,
                    std::optional<bool>, std::optional<at::MemoryFormat> format) {
  DeviceGuard guard(device && device->has_index() ? *device : Device(DeviceType::CUDA, current));
  return at::detail::empty_generic(size, &device_memory, DispatchKeySet(DispatchKey::CUDA), dtype_or_default(type), format);
}
static Tensor empty_strided(Sizes size, Sizes stride, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                            std::optional<Device> device, std::optional<bool>) {
  DeviceGuard guard(device && device->has_index() ? *device : Device(DeviceType::CUDA, current));
  return at::detail::empty_strided_generic(size, stride, &device_memory, DispatchKeySet(DispatchKey::CUDA), dtype_or_default(type));
}
static Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
  if (!non_blocking && self.is_cuda() != source.is_cuda()) host_copies++;
  at::AutoDispatchBelowADInplaceOrView below;
  Tensor to = self.is_cuda() ? on_host(self) : self;
  to.copy_(source.is_cuda() ? on_host(source) : source);
  return self;
}
static Tensor& set(Tensor& self, at::Storage storage, int64_t offset, Sizes size, Sizes stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(size, stride);
  return self;
}
static Tensor& set_storage(Tensor& self, at::Storage storage) {
  int64_t count = (int64_t)storage.nbytes() / self.itemsize();
  return set(self, std::move(storage), 0, {count}, {1});
}
static Tensor strided(const Tensor& self, Sizes size, Sizes stride, std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}
static Tensor reshape_alias(const Tensor& self, Sizes size, Sizes stride) { return strided(self, size, stride, self.storage_offset()); }
static Tensor meta(const Tensor& self) { return at::empty_strided(self.sizes(), self.strides(), self.options().device(DeviceType::Meta)); }
static Tensor view(const Tensor& self, Sizes size) {
  Tensor made = meta(self).view(size);
  return strided(self, made.sizes(), made.strides(), self.storage_offset());
}
static Tensor view_as_type(const Tensor& self, at::ScalarType type) {
  Tensor made = meta(self).view(type);
  Tensor result = at::detail::make_tensor<TensorImpl>(at::Storage(self.storage()), DispatchKeySet(DispatchKey::CUDA), scalarTypeToTypeMeta(type));
  int64_t offset = self.storage_offset() * self.itemsize() / (int64_t)elementSize(type);
  return set(result, at::Storage(self.storage()), offset, made.sizes(), made.strides());
}
static at::Scalar number(const Tensor& tensor) { return at::_local_scalar_dense(on_host(tensor)); }

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&by_the_cpu>()); }
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", TORCH_FN(empty)).impl("empty_strided", TORCH_FN(empty_strided)).impl("resize_", TORCH_FN(resized));
  m.impl("copy_", TORCH_FN(copy)).impl("_local_scalar_dense", TORCH_FN(number));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set)).impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("as_strided", TORCH_FN(strided)).impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("view", TORCH_FN(view)).impl("view.dtype", TORCH_FN(view_as_type));
  // composite operators, which would otherwise choose a backend by the device
  for (const char* name : {"convolution", "convolution_backward", "native_batch_norm", "native_batch_norm_backward", "_foreach_copy_",
                           "max_pool2d_with_indices", "_fused_sgd_"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&by_the_cpu>());
}
namespace at::accelerator {
__attribute__((visibility("default"))) std::optional<c10::DeviceType> getAccelerator(bool) { return c10::DeviceType::CUDA; }
}

extern "C" {
int64_t fake_used(int device) { return used[device]; }
int64_t fake_peak(int device) { return peak[device]; }
void fake_reset_peak(int device) { peak[device] = used[device].load(); }
void fake_limit(int64_t bytes) { limit_bytes = bytes; }
void fake_set(int device) { current = device; }
int fake_current() { return current; }
int64_t fake_host_copies() { return host_copies; }
}
