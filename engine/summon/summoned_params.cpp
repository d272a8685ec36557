// SPDX-License-Identifier: Apache-2.0
#include "engine/summon/summoned_params.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {

SummonedParams::SummonedParams(ShardedState& state, const SummonOptions& options)
    : options_(options), ops_(state, options.rank0_only) {
  if (options.offload_to_cpu && !options.rank0_only) {
    warnings_.emplace_back(
        "offload_to_cpu without rank0_only keeps a full copy in host memory for every rank of a "
        "machine: set rank0_only, or expect to run out of host memory");
  }
}

SummonedParams::~SummonedParams() {
  if (state_ == State::open) (void)close().ok();  // a destructor cannot report a failure
}

Status SummonedParams::open() {
  TESSERA_ASSERT(state_ == State::fresh, "parameters are summoned once");
  TESSERA_ASSIGN(wanted_, units_to_summon(ops_, options_));
  if (!ops_.busy().empty()) {
    return Status(
        Code::invalid_argument,
        fmt::format("unit {} cannot be summoned {}", ops_.unit_name(wanted_.front()), ops_.busy()));
  }
  for (const std::size_t unit : wanted_) {
    if (!ops_.is_summoned(unit)) continue;
    return Status(Code::invalid_argument,
                  fmt::format("unit {} cannot be summoned while it is: close its FullParams first",
                              ops_.unit_name(unit)));
  }
  if (options_.with_grads && ops_.owners_have_gradients()) {
    return Status(Code::not_supported,
                  "with_grads: in this scheme only a parameter's owner has its gradient, read it "
                  "there or summon without gradients");
  }
  // Open from here on: the destructor then gives back what was gathered until something failed.
  state_ = State::open;
  TESSERA_TRY(ops_.begin(wanted_));
  for (const std::size_t index : wanted_) {
    units_.push_back(ops_.describe(index, options_.with_grads));
    TESSERA_TRY(ops_.open(units_.back(), options_.offload_to_cpu));
    for (const FullCopySource& source : units_.back().values.sources) {
      for (const auto& segment : source.map.segments()) parameters_.push_back(segment.parameter);
    }
  }
  return {};
}

Status SummonedParams::expect_open(const char* call) const {
  if (state_ == State::open) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} was called after close: summon the parameters again", call));
}

Status SummonedParams::expect_writeback(const char* call) const {
  TESSERA_TRY(expect_open(call));
  if (options_.writeback) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} was called, but the parameters were summoned to be read: a change "
                            "would be lost, set writeback",
                            call));
}

Result<const FullCopy*> SummonedParams::copy_with(ParameterId id, bool gradient) const {
  const auto& all = ops_.model().parameters;
  if (!id.valid() || id.index() >= all.size()) {
    return Status(Code::invalid_argument, fmt::format("there is no parameter {}", id.value));
  }
  const Parameter& parameter = ops_.model().parameter(id);
  if (gradient && !options_.with_grads) {
    return Status(
        Code::invalid_argument,
        fmt::format("the gradient of {} was not summoned: set with_grads", parameter.name));
  }
  for (const SummonedUnit& unit : units_) {
    if (unit.values.find(id) == nullptr) continue;
    if (!gradient) return &unit.values;
    if (parameter.requires_grad && unit.gradients.find(id) != nullptr) return &unit.gradients;
    return Status(Code::invalid_argument,
                  fmt::format("{} of unit {} has no gradient now: it is frozen, backward did not "
                              "reduce it, or the optimizer has used it",
                              parameter.name, unit.values.unit));
  }
  const std::size_t unit = ops_.assignment().unit_of_parameter[id.index()];
  if (unit == UnitAssignment::no_unit) {
    return Status(Code::invalid_argument,
                  fmt::format("{} is ignored: no unit has it, it is whole on every rank anyway",
                              parameter.name));
  }
  return Status(Code::invalid_argument, fmt::format("{} was not summoned: it belongs to unit {}",
                                                    parameter.name, ops_.unit_name(unit)));
}

Status SummonedParams::look(const char* call, ParameterId id, bool gradient, const Read& body) {
  TESSERA_TRY(expect_open(call));
  TESSERA_ASSIGN(const FullCopy* copy, copy_with(id, gradient));
  return ops_.visit(*copy, *copy->find(id), id, /*writes=*/false, body);
}

Status SummonedParams::change(const char* call, ParameterId id, bool gradient, const Modify& body) {
  TESSERA_TRY(expect_writeback(call));
  TESSERA_ASSIGN(const FullCopy* copy, copy_with(id, gradient));
  return ops_.visit(*copy, *copy->find(id), id, /*writes=*/true, body);
}

Status SummonedParams::read(ParameterId id, const Read& body) {
  return look("read", id, false, body);
}
Status SummonedParams::modify(ParameterId id, const Modify& body) {
  return change("modify", id, false, body);
}
Status SummonedParams::read_gradient(ParameterId id, const Read& body) {
  return look("read_gradient", id, true, body);
}
Status SummonedParams::modify_gradient(ParameterId id, const Modify& body) {
  return change("modify_gradient", id, true, body);
}

Status SummonedParams::commit() {
  TESSERA_TRY(expect_writeback("commit"));
  for (SummonedUnit& unit : units_) TESSERA_TRY(ops_.write_back(unit));
  return {};
}

// Frees as much as can be freed, even if something fails.
Status SummonedParams::close() {
  TESSERA_TRY(expect_open("close"));
  Status first;
  std::for_each(units_.rbegin(), units_.rend(), [&](SummonedUnit& unit) {
    const Status status = ops_.close(unit);
    if (first.ok()) first = status;
  });
  state_ = State::closed;
  ops_.end(wanted_);
  return first;
}

}  // namespace tessera
