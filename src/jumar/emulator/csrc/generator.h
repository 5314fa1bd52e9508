// Random numbers: a generator of its own per device, which draws as the CPU's does.
#pragma once
#include "state.h"

namespace emulator {
struct Generator final : c10::GeneratorImpl {
  c10::intrusive_ptr<at::CPUGeneratorImpl> inner;
  uint64_t offset = 0;

  explicit Generator(DeviceIndex device, uint64_t seed = c10::default_rng_seed_val)
      : c10::GeneratorImpl(Device(NPU, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        inner(c10::make_intrusive<at::CPUGeneratorImpl>(seed)) {}
  void set_current_seed(uint64_t seed) override {
    inner->set_current_seed(seed);
    offset = 0;
  }
  uint64_t current_seed() const override { return inner->current_seed(); }
  uint64_t seed() override { return inner->seed(); }
  void set_offset(uint64_t value) override { offset = value; }
  uint64_t get_offset() const override { return offset; }
  void set_state(const c10::TensorImpl& state) override { inner->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return inner->get_state(); }
  Generator* clone_impl() const override {
    auto* copy = new Generator(device().index());
    copy->inner->set_state(*inner->get_state());
    return copy;
  }
};

inline std::vector<at::Generator> generators;

inline at::Generator cpu_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == NPU, "Expected a 'npu' device type for generator but found '",
      generator.device().type(), "'");
  return at::Generator(static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->inner);
}
}  // namespace emulator
