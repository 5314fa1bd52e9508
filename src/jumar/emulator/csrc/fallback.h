// Every operator without a kernel of its own: the CPU's kernel on the same memory.
#pragma once
#include "alias.h"
#include "capture.h"
#include "generator.h"
#include "noise.h"
#include "watch.h"

namespace emulator {
// Operators for which torch allows index tensors on the CPU beside data on a device.
inline const std::unordered_set<std::string> MIXED = {
    "aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"};

class Call {  // one operator's arguments on their way to the CPU, and its results on their way back
 public:
  explicit Call(std::string name) : name_(std::move(name)) {}

  int device = -1;
  bool result_on_cpu = false;

  Tensor in(const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (tensor.device().type() != NPU) {
      host_data_ |= tensor.dim() > 0;
      return tensor;
    }
    const int index = tensor.device().index();
    TORCH_CHECK(device < 0 || device == index, "Expected all tensors to be on the same device, but found at least "
        "two devices, npu:", device, " and npu:", index, "! (when checking arguments of ", name_, ")");
    device = index;
    inputs_.push_back(alias(tensor));
    return inputs_.back();
  }

  Tensor out(const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    for (auto& [npu, cpu] : pairs_) {
      if (cpu.is_same(tensor)) return npu;
      if (cpu.storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl())
        return over(npu.storage(), tensor, c10::DispatchKey::PrivateUse1);
    }
    return tensor.device().is_cpu() && !result_on_cpu ? to_npu(tensor, device) : tensor;
  }

  void start() {  // all arguments are in
    if (device < 0) device = current;
    TORCH_CHECK(!host_data_ || pairs_.empty() || MIXED.count(base_of(name_)),
        "Expected all tensors to be on the same device, but found at least two devices, npu:", device,
        " and cpu! (when checking arguments of ", name_, ")");
    raise_deferred(device);
    note(name_);
    caution(name_);
    if (!cards[device].bf16) refuse_bf16();
    wants_outputs_ = before(name_, device, inputs_);
  }

  void finish(const std::vector<Tensor>& outputs) {
    if (wants_outputs_) after(outputs);
    for (auto& [npu, cpu] : pairs_) {  // an out= tensor that the CPU's kernel resized
      const bool moved = npu.storage().data() != cpu.storage().data();
      if (!moved && npu.sizes() == cpu.sizes() && npu.strides() == cpu.strides()) continue;
      auto* impl = npu.unsafeGetTensorImpl();
      if (moved) impl->set_storage_keep_dtype(adopt(cpu.storage(), device));
      impl->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
    }
  }

 private:
  Tensor alias(const Tensor& tensor) {  // one for each tensor: `x @ x` gives the kernel the same one twice
    for (auto& [npu, cpu] : pairs_)
      if (npu.is_same(tensor)) return cpu;
    return pairs_.emplace_back(tensor, to_cpu(tensor)).second;
  }

  void refuse_bf16() const {
    for (auto& pair : pairs_)
      TORCH_CHECK(pair.first.scalar_type() != at::kBFloat16, "call acl", name_.substr(name_.find("::") + 2),
          " failed, error code is 161002\n[ERROR] ERR00100 PTA call acl api failed\nEZ1001: Tensor not implemented "
          "for DT_BFLOAT16, should be in dtype support list [DT_FLOAT,DT_FLOAT16]. (emulated chip without bfloat16)");
  }

  std::string name_;
  bool host_data_ = false, wants_outputs_ = false;
  std::vector<std::pair<Tensor, Tensor>> pairs_;
  std::vector<Tensor> inputs_;  // as they are written, so that a rule sees what the operator sees
};

inline std::vector<Tensor> tensors_of(const torch::jit::Stack& stack, size_t count) {
  std::vector<Tensor> found;
  for (size_t i = stack.size() - count; i < stack.size(); i++) {
    const auto& value = stack[i];
    if (value.isTensor() && value.toTensor().defined()) found.push_back(value.toTensor());
    if (value.isTensorList())
      for (const Tensor& one : value.toTensorVector()) found.push_back(one);
  }
  return found;
}

inline void arguments_in(Call& call, const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
  const size_t count = schema.arguments().size(), base = stack->size() - count;
  std::vector<size_t> generator_wanted;
  for (size_t i = 0; i < count; i++) {
    c10::IValue& value = (*stack)[base + i];
    if (value.isTensor()) {
      value = call.in(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& one : value.toTensorVector()) list.push_back(call.in(one));
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (std::optional<Tensor> one : value.toOptionalTensorList())
        list.push_back(one ? std::optional<Tensor>(call.in(*one)) : one);
      value = list;
    } else if (value.isDevice()) {
      if (value.toDevice().type() == NPU) {
        call.device = index_of(value.toDevice());
        value = Device(c10::kCPU);
      } else {
        call.result_on_cpu = true;
      }
    } else if (value.isGenerator()) {
      value = cpu_generator(value.toGenerator());
    } else if (value.isNone() && schema.arguments()[i].name() == "generator") {
      generator_wanted.push_back(i);
    }
  }
  for (size_t i : generator_wanted)
    (*stack)[base + i] = cpu_generator(generators.at(call.device < 0 ? current : call.device));
}

inline void results_out(Call& call, const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); i++) {
    c10::IValue& value = (*stack)[i];
    if (value.isTensor()) {
      value = call.out(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& one : value.toTensorVector()) list.push_back(call.out(one));
      value = list;
    }
  }
}

inline void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Run a captured operator again, and write what comes out where its first results lie.
inline void redo(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const torch::jit::Stack& results) {
  torch::jit::Stack stack = arguments;
  fallback(op, &stack);
  const auto before = tensors_of(results, results.size()), now = tensors_of(stack, stack.size());
  for (size_t i = 0; i < now.size(); i++)
    if (!now[i].is_same(before[i])) to_cpu(before[i]).copy_(to_cpu(now[i]));
}

inline void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  Call call(c10::toString(op.operator_name()));
  const torch::jit::Stack kept = capturing ? torch::jit::Stack(stack->end() - schema.arguments().size(), stack->end())
                                           : torch::jit::Stack();
  arguments_in(call, schema, stack);
  call.start();
  {
    at::AutoDispatchBelowADInplaceOrView below;
    if (!with_noise(op, stack)) op.callBoxed(stack);
  }
  call.finish(tensors_of(*stack, schema.returns().size()));
  results_out(call, schema, stack);
  if (capturing) {
    const torch::jit::Stack results(stack->end() - schema.returns().size(), stack->end());
    keep(call.device, [op, kept, results] { redo(op, kept, results); });
  }
}

// Operators that only move sizes, strides and storages: the CPU's kernels do for npu tensors too.
inline void metadata_only(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& first = torch::jit::peek(*stack, 0, op.schema().arguments().size());
  const bool ours = first.isTensor() && first.toTensor().device().type() == NPU;
  OnDevice on(ours ? first.toTensor().device().index() : current);
  before(c10::toString(op.operator_name()), current, {});
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}
}  // namespace emulator
