// SPDX-License-Identifier: Apache-2.0
#include "sim/stack/profile_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera::sim {
namespace {

struct Idle {
  bool says;  // something else than what holds without it
  const char* key;
};

Status refuse(const std::string& source, const std::string& what) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", source, what));
}

// `tessera train` computes in one way, and its bytes are planned for that.
Status check_program(const StackProfile& p, const StackProfile& base, const std::string& source) {
  if (p.program == StackProfile::Program::framework) return {};
  for (const auto& [says, key] : {Idle{p.attention != base.attention, "attention"},
                                  {p.loss != base.loss, "loss"},
                                  {p.saves != base.saves, "saves"},
                                  {p.contention != base.contention, "contention"},
                                  {p.autocast != base.autocast, "autocast"},
                                  {p.optimizer_dtype != base.optimizer_dtype, "optimizer_dtype"},
                                  {p.allocator != base.allocator, "allocator"}}) {
    if (!says) continue;
    return refuse(source, fmt::format("{} means nothing to the program of tessera train, which "
                                      "computes in its own way: leave it out",
                                      key));
  }
  return {};
}

Status check_pairs(const StackProfile& p, const StackProfile& base, const std::string& source) {
  struct Pair {
    Idle idle;
    bool works;
    const char* needs;
  };
  const bool train = p.program == StackProfile::Program::train;
  const bool unfused = p.attention == "unfused";
  for (const auto& [idle, works, needs] :
       {Pair{{p.between_ns != base.between_ns, "between_ns"}, p.one_thread, "one_thread true"},
        {{p.threads != base.threads, "threads"}, train, "program train"},
        {{p.score_passes != base.score_passes, "score_passes"}, unfused, "attention unfused"},
        {{p.calibrated_p90 != base.calibrated_p90, "calibrated_p90"},
         p.calibrated_runs > 0,
         "calibrated_runs"}}) {
    if (!idle.says || works) continue;
    return refuse(source, fmt::format("{} does nothing without {}", idle.key, needs));
  }
  return {};
}

// A stack of numbers that nobody gave would be faster than any.
Status check_whole(const nlohmann::json& json, const StackProfile& p, const std::string& source) {
  if (json.contains("begins_with") || p.program != StackProfile::Program::framework) return {};
  for (const char* key :
       {"attention", "elementwise_bytes", "kernels", "host_kernel_ns", "host_module_ns",
        "host_collective_ns", "contention", "loss", "allocator", "context_bytes"}) {
    if (json.contains(key)) continue;
    return refuse(source, fmt::format("{} is missing: give it, or begin with a shipped profile, "
                                      "\"begins_with\": \"eager\"",
                                      key));
  }
  return {};
}

}  // namespace

Status check_profile(const nlohmann::json& json, const StackProfile& profile,
                     const StackProfile& base, const std::string& source) {
  TESSERA_TRY(check_whole(json, profile, source));
  TESSERA_TRY(check_program(profile, base, source));
  TESSERA_TRY(check_pairs(profile, base, source));
  if (profile.calibrated_runs > 0 && !json.contains("calibrated_p90")) {
    return refuse(source, "calibrated_p90 is missing: how far calibrated_runs are off");
  }
  const auto& name = profile.name;
  const bool line = std::all_of(name.begin(), name.end(),
                                [](char c) { return static_cast<unsigned char>(c) >= ' '; });
  return line && !name.empty() ? Status() : refuse(source, "name must be a line of text");
}

}  // namespace tessera::sim
