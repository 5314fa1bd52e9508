// The same memory seen as npu tensor and as CPU tensor: no bytes are copied in either direction.
#pragma once
#include "memory.h"

namespace emulator {
inline Tensor over(c10::Storage storage, const Tensor& like, c10::DispatchKey key) {
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) made._set_conj(true);
  if (like.is_neg()) made._set_neg(true);
  return made;
}

inline void drop_storage(void* context) { delete static_cast<c10::Storage*>(context); }

inline Tensor to_cpu(const Tensor& tensor) {
  const auto& storage = tensor.storage();
  c10::DataPtr data(const_cast<void*>(storage.data()), new c10::Storage(storage), &drop_storage, Device(c10::kCPU));
  c10::Storage shared(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data),
      c10::GetAllocator(c10::kCPU), /*resizable=*/true);
  return over(std::move(shared), tensor, c10::DispatchKey::CPU);
}

inline c10::Storage adopt(const c10::Storage& storage, int device) {
  const int64_t bytes = round_up(static_cast<int64_t>(storage.nbytes()), BLOCK);
  charge(device, bytes);
  c10::DataPtr data(const_cast<void*>(storage.data()), new Block{device, bytes, nullptr, storage}, &free_block,
      Device(NPU, static_cast<DeviceIndex>(device)));
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), allocator(), true);
}

inline Tensor to_npu(const Tensor& tensor, int64_t device) {
  check_index(device);
  return over(adopt(tensor.storage(), static_cast<int>(device)), tensor, c10::DispatchKey::PrivateUse1);
}
}  // namespace emulator
