// Kernels that the fallback cannot stand in for: memory, copies to and from the host, convolution.
#pragma once
#include "fallback.h"

namespace emulator {
inline Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
    std::optional<Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  OnDevice on(index_of(device));
  before("aten::empty.memory_format", current, {});
  return at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(type), format);
}

inline Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> type,
    std::optional<c10::Layout>, std::optional<Device> device, std::optional<bool>) {
  OnDevice on(index_of(device));
  before("aten::empty_strided", current, {});
  return at::detail::empty_strided_generic(size, stride, allocator(),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(type));
}

inline Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  const bool from_npu = from.device().type() == NPU, to_npu = to.device().type() == NPU;
  const int device = (to_npu ? to : from).device().index();
  raise_deferred(device);
  note("aten::_copy_from");
  if (!from_npu || !to_npu) refuse_in_capture("A copy between host and device");
  const Tensor source = from_npu ? to_cpu(from) : from, target = to_npu ? to_cpu(to) : to;
  const bool wants = before("aten::_copy_from", device, {source, target});
  target.copy_(source);
  if (wants) after({target});
  keep(device, [source, target] { target.copy_(source); });
  return to;
}

inline Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

inline c10::Scalar local_scalar_dense(const Tensor& tensor) {
  const int device = tensor.device().index();
  refuse_in_capture("Reading a number from the device");
  raise_deferred(device);
  note("aten::_local_scalar_dense");
  Tensor value = to_cpu(tensor);
  if (before("aten::_local_scalar_dense", device, {value})) {
    value = value.clone();
    after({value});
  }
  return value.item();
}

inline Tensor convolve(const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups) {
  const auto on_cpu = [&](const Tensor& input, const Tensor& weight, const std::optional<Tensor>& b) {
    return at::convolution_symint(input, weight, b, stride, padding, dilation, transposed, output_padding, groups);
  };
  const auto type = x.scalar_type();
  const auto channels = x.size(w.dim() == x.dim() ? 1 : 0);
  if (!noise.on.load() || transposed || groups != 1 || channels < 2 || x.dim() != w.dim() || !wider(type))
    return on_cpu(x, w, bias);
  const bool half = type != at::kFloat;
  const Tensor a = half ? x.to(at::kFloat) : x, b = half ? w.to(at::kFloat) : w;
  const auto c = bias && bias->defined() && half ? std::optional<Tensor>(bias->to(at::kFloat)) : bias;
  const uint64_t key = draw("aten::convolution", x.sizes());
  const int64_t at = cut(key, channels);
  Tensor sum = on_cpu(a.narrow(1, 0, at), b.narrow(1, 0, at), c);
  sum.add_(on_cpu(a.narrow(1, at, channels - at), b.narrow(1, at, channels - at), std::nullopt));
  return half ? faithful(sum, type, key) : sum;
}

inline Tensor convolution(const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
    c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  Call call("aten::convolution");
  const Tensor input = call.in(x), weight = call.in(w);
  const auto added = bias && bias->defined() ? std::optional<Tensor>(call.in(*bias)) : std::nullopt;
  call.start();
  Tensor result;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    result = convolve(input, weight, added, stride, padding, dilation, transposed, output_padding, groups);
  }
  call.finish({result});
  if (capturing) {
    const auto lists = std::make_tuple(stride.vec(), padding.vec(), dilation.vec(), output_padding.vec());
    keep(call.device, [=] {
      const auto& [s, p, d, o] = lists;
      result.copy_(convolve(input, weight, added, s, p, d, transposed, o, groups));
    });
  }
  return call.out(result);
}
}  // namespace emulator
