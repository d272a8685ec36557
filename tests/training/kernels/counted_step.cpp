// SPDX-License-Identifier: Apache-2.0
#include "tests/training/kernels/counted_step.h"

#include <algorithm>

#include "engine/backends/cuda/module/language_kernels.h"
#include "training/language/plan.h"
#include "training/language/workspace.h"

namespace tessera::test {
namespace {

using language::PlannedLayer;

// Memory that nobody touches.
std::byte* nowhere() { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40); }

class Step {
 public:
  Step(const Model& model, const CountedShape& shape, language::Plan& plan)
      : model_(model), shape_(shape), plan_(plan) {}

  KernelCounts run() {
    for (const ModuleId id : model_.forward) pass(id, false);
    std::vector<ModuleId> back(model_.forward.rbegin(), model_.forward.rend());
    for (const ModuleId id : back) {
      if (plan_.layers.at(id).runs_backward) pass(id, true);
    }
    update();
    return math_.counts();
  }

 private:
  void pass(ModuleId id, bool backward) {
    const PlannedLayer& planned = plan_.layers.at(id);
    language::Call call;
    call.math = &math_;
    call.work = language::workspace_at(nowhere(), plan_, false).work;
    call.saved = call.temporary = nowhere();
    call.half = shape_.dtype;
    for (const ParameterId p : planned.parameters) {
      const Parameter& parameter = model_.parameter(p);
      const auto bytes = static_cast<std::size_t>(bytes_of(parameter.numel(), shape_.dtype).value);
      call.parameters.emplace_back(nowhere(), bytes);
      if (parameter.requires_grad) call.gradients.emplace_back(nowhere(), bytes);
    }
    call.give_loss = [](const float*) {};
    backward ? planned.layer->backward(call) : planned.layer->forward(call);
  }

  // float32 is what is kept: cast before, and back to float32 for the optimizer.
  void update() {
    std::vector<BlockCast> casts;
    std::vector<KernelArray> gradients;
    std::vector<AdamArrays> adam;
    double all = 0;
    for (const Parameter& p : model_.parameters) {
      if (!p.requires_grad) continue;
      const std::int64_t numel = p.numel().value;
      all += static_cast<double>(numel);
      const KernelArray array{nowhere(), numel, DType::float32};
      gradients.push_back(array);
      adam.push_back({{}, array, array, array, array});
      casts.push_back({nowhere(), nowhere(), {DType::float32, shape_.dtype, numel}});
    }
    const double half = static_cast<double>(size_of(shape_.dtype).value);
    math_.count("casts of parameters", all * (4 + half), 0,
                [&] { device::cast_blocks(casts, nullptr); });
    for (BlockCast& cast : casts) std::swap(cast.shape.from_dtype, cast.shape.to_dtype);
    math_.count("casts of gradients", all * (4 + half), 0,
                [&] { device::cast_blocks(casts, nullptr); });
    auto* const sum = reinterpret_cast<float*>(nowhere());
    math_.count("clipping", all * 4, 0, [&] {
      device::add_norm(Norm::l2, gradients, sum, nowhere(), nullptr);
      device::clip(Norm::l2, sum, 1, gradients, nullptr);
    });
    math_.count("AdamW", all * 28, 0, [&] { device::adam(adam, nullptr); });
  }

  const Model& model_;
  const CountedShape& shape_;
  language::Plan& plan_;
  CountedMath math_;
};

}  // namespace

Result<KernelCounts> count_step(const Model& model, const CountedShape& shape) {
  const language::Shape own{.batch = shape.batch,
                            .length = shape.length,
                            .dtype = shape.dtype,
                            .parameters = shape.dtype,
                            .fp8 = shape.fp8,
                            .threads = 1,
                            .processor = Processor::gpu};
  TESSERA_ASSIGN(const auto plan, language::Plan::make(model, own));
  return Step(model, shape, *plan).run();
}

}  // namespace tessera::test
