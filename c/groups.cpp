// SPDX-License-Identifier: Apache-2.0
// Parameter groups.
#include <fmt/format.h>

#include "c/handles.h"

namespace tessera::c {
namespace {

AdamOverrides overrides_of(const tessera_group& group) {
  const auto given = [&](std::uint32_t bit, float value) {
    return (group.given & bit) != 0 ? std::optional(value) : std::nullopt;
  };
  return {.learning_rate = given(TESSERA_LEARNING_RATE, group.learning_rate),
          .beta1 = given(TESSERA_BETA1, group.beta1),
          .beta2 = given(TESSERA_BETA2, group.beta2),
          .epsilon = given(TESSERA_EPSILON, group.epsilon),
          .weight_decay = given(TESSERA_WEIGHT_DECAY, group.weight_decay)};
}

Status check_bits(const tessera_group& group) {
  constexpr std::uint32_t all = TESSERA_LEARNING_RATE | TESSERA_BETA1 | TESSERA_BETA2 |
                                TESSERA_EPSILON | TESSERA_WEIGHT_DECAY;
  if ((group.given & ~all) == 0) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("a group: given is {}, of which only the bits {} are known", group.given, all));
}

Result<ParamGroup> group_of(const tessera_engine& engine, const tessera_group& given) {
  TESSERA_ASSIGN(const tessera_group group, taken(&given));
  TESSERA_TRY(check_bits(group));
  if (group.count < 0 || (group.count > 0 && group.parameters == nullptr)) {
    return Status(Code::invalid_argument, "a group: `count` parameters, at least 0");
  }
  ParamGroup made{.parameters = {}, .adam = overrides_of(group)};
  for (std::int32_t k = 0; k < group.count; ++k) {
    TESSERA_ASSIGN(const ParameterId id, known(engine, group.parameters[k]));
    made.parameters.push_back(id);
  }
  return made;
}

Status set(tessera_engine& engine, const tessera_group* groups, std::int32_t count) {
  if (count < 1) return Status(Code::invalid_argument, "groups: at least one");
  std::vector<ParamGroup> all;
  const auto* at = reinterpret_cast<const std::byte*>(groups);  // of a program's own header
  for (std::int32_t k = 0; k < count; ++k, at += groups->struct_size) {
    TESSERA_ASSIGN(ParamGroup group, group_of(engine, *reinterpret_cast<const tessera_group*>(at)));
    all.push_back(std::move(group));
  }
  return engine.engine->set_param_groups(all);
}

Status add(tessera_engine& engine, const tessera_group& given) {
  TESSERA_ASSIGN(const ParamGroup group, group_of(engine, given));
  return engine.engine->add_param_group(group);
}

Status change(tessera_engine& engine, std::int32_t number, const tessera_group& numbers) {
  if (number < 0) return Status(Code::invalid_argument, "a group's number: at least 0");
  TESSERA_ASSIGN(const tessera_group given, taken(&numbers));
  TESSERA_TRY(check_bits(given));
  return engine.engine->set_adam(static_cast<std::size_t>(number), overrides_of(given));
}

}  // namespace
}  // namespace tessera::c

using tessera::c::guarded;

int tessera_engine_set_groups(tessera_engine* engine, const tessera_group* groups, int32_t count) {
  return guarded([&] { return tessera::c::set(*engine, groups, count); }, engine, groups);
}

int tessera_engine_add_group(tessera_engine* engine, const tessera_group* group) {
  return guarded([&] { return tessera::c::add(*engine, *group); }, engine, group);
}

int tessera_engine_change_group(tessera_engine* engine, int32_t number,
                                const tessera_group* numbers) {
  return guarded([&] { return tessera::c::change(*engine, number, *numbers); }, engine, numbers);
}
