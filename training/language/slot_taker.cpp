// SPDX-License-Identifier: Apache-2.0
#include "training/language/slot_taker.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::language {

Status unsupported(const Module& module, const std::string& what) {
  return Status(
      Code::not_supported,
      fmt::format("module {} is {}, which real training does not know", module.path, what));
}

void SlotTaker::begin(ModuleId module) {
  id_ = module;
  taken_ = 0;
}

bool SlotTaker::has(const char* name) const {
  return model_.find_parameter(model_.module(id_).path + "." + name).valid();
}

DropoutSlots SlotTaker::dropout(float share, std::int32_t operation) const {
  if (!shape_.drops) share = 0;
  return {share, static_cast<std::uint32_t>(2 * id_.value + operation)};
}

AdapterSlots SlotTaker::adapter(const std::string& name, std::int64_t in, std::int64_t out) {
  AdapterSlots slots{.scale = shape_.adapter_scale};
  slots.down = slot(name + ".lora_A.weight", {any, in}, true);
  if (slots.down.read < 0) return slots;
  slots.rank = slots.down.numel / in;
  slots.up = slot(name + ".lora_B.weight", {out, slots.rank}, false);
  return slots;
}

Slot SlotTaker::slot(const std::string& name, const std::vector<std::int64_t>& shape,
                     bool optional) {
  const std::string full = model_.module(id_).path + "." + name;
  const ParameterId id = model_.find_parameter(full);
  Slot out;
  if (!id.valid() && optional) return out;
  const auto& used = used_[static_cast<std::size_t>(id_.value)];
  const auto place = std::find(used.begin(), used.end(), id);
  if (!id.valid() || place == used.end()) {
    failed_ = unsupported(model_.module(id_), "one without parameter " + name);
    return out;
  }
  ++taken_;
  const Parameter& p = model_.parameter(id);
  const bool fits = std::equal(p.shape.begin(), p.shape.end(), shape.begin(), shape.end(),
                               [](auto a, auto b) { return a == b || b == any; });
  if (!fits) {
    failed_ = Status(Code::invalid_argument,
                     fmt::format("parameter {} has another shape than the rest of the model "
                                 "wants",
                                 full));
  }
  out.read = static_cast<int>(place - used.begin());
  out.numel = out.whole = p.numel().value;
  if (!p.requires_grad) return out;
  out.write = static_cast<int>(std::count_if(used.begin(), place, [this](ParameterId before) {
    return model_.parameter(before).requires_grad;
  }));
  return out;
}

}  // namespace tessera::language
