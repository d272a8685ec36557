// SPDX-License-Identifier: Apache-2.0
// An open summon: which units it holds, and what its caller may do with them.
#pragma once

#include <string>
#include <vector>

#include "engine/summon/summon_ops.h"
#include "tessera/summon.h"

namespace tessera {

class SummonedParams final : public FullParams {
 public:
  SummonedParams(ShardedState& state, const SummonOptions& options);
  ~SummonedParams() override;

  /// Checks the request against the engine's state, then gathers.
  Status open();

  const std::vector<ParameterId>& parameters() const override { return parameters_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  Status read(ParameterId parameter, const Read& body) override;
  Status modify(ParameterId parameter, const Modify& body) override;
  Status read_gradient(ParameterId parameter, const Read& body) override;
  Status modify_gradient(ParameterId parameter, const Modify& body) override;
  Status commit() override;
  Status close() override;

 private:
  enum class State : std::uint8_t { fresh, open, closed };

  Status expect_open(const char* call) const;
  Status expect_writeback(const char* call) const;
  Result<const FullCopy*> copy_with(ParameterId parameter, bool gradient) const;
  Status look(const char* call, ParameterId parameter, bool gradient, const Read& body);
  Status change(const char* call, ParameterId parameter, bool gradient, const Modify& body);

  const SummonOptions options_;
  SummonOps ops_;
  State state_ = State::fresh;
  std::vector<std::size_t> wanted_;  // places in the assignment
  std::vector<SummonedUnit> units_;
  std::vector<ParameterId> parameters_;
  std::vector<std::string> warnings_;
};

/// The units that `options` means, as places in the assignment.
/// Fails: invalid_argument, naming the module.
Result<std::vector<std::size_t>> units_to_summon(const SummonOps& ops,
                                                 const SummonOptions& options);

}  // namespace tessera
