// SPDX-License-Identifier: Apache-2.0
#include "exchange/checkpoints/parameter_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace tessera::exchange {
namespace {

using Shapes = ForeignCheckpoint::Shapes;

// A tensor of the model may be saved under any of its names.
std::vector<std::vector<std::string>> names_of(const Model& model) {
  std::vector<std::vector<std::string>> names;
  for (const Parameter& parameter : model.parameters) names.push_back({parameter.name});
  for (const Tie& tie : model.ties) names[tie.parameter.index()].push_back(tie.alias);
  return names;
}

// The saved name, or "".
std::string found(const Shapes& shapes, const std::string& prefix,
                  const std::vector<std::string>& names, std::string_view end) {
  for (const std::string& name : names) {
    std::string full = fmt::format("{}{}{}", prefix, name, end);
    if (shapes.contains(full)) return full;
  }
  return "";
}

// What stands in front of tensors that end so.
std::set<std::string> prefixes(const Shapes& shapes, const std::vector<std::string>& names,
                               std::string_view end) {
  std::set<std::string> out;
  for (const auto& [saved, shape] : shapes) {
    for (const std::string& name : names) {
      const std::string tail = fmt::format("{}{}", name, end);
      if (!saved.ends_with(tail)) continue;
      const std::string front = saved.substr(0, saved.size() - tail.size());
      if (front.empty() || front.ends_with('.')) out.insert(front);
    }
  }
  return out;
}

Status bad_names(const std::string& source, const std::string& what) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", source, what));
}

class NameMatch {
 public:
  NameMatch(const Shapes& shapes, const Model& model, const std::string& source)
      : shapes_(shapes), model_(model), source_(source), names_(names_of(model)) {}

  Result<std::string> value_prefix() const {
    std::vector<std::string> whole;
    std::string nearest, lacks;
    std::size_t most = 0;
    for (const std::string& prefix : prefixes(shapes_, names_[0], "")) {
      std::size_t has = 0;
      std::string missing;
      for (std::size_t p = 0; p < names_.size(); ++p) {
        const bool there = !found(shapes_, prefix, names_[p], "").empty();
        has += there ? 1 : 0;
        if (!there && missing.empty()) missing = model_.parameters[p].name;
      }
      if (has == names_.size()) whole.push_back(prefix);
      if (has < most) continue;
      most = has;
      nearest = prefix;
      lacks = missing;
    }
    if (whole.size() == 1) return whole.front();
    if (whole.empty()) {
      return bad_names(source_,
                       fmt::format("lacks the parameter {}{} of {}", nearest,
                                   most == 0 ? model_.parameters[0].name : lacks, model_.name));
    }
    for (std::string& prefix : whole) prefix = "'" + prefix + "'";
    return bad_names(source_, fmt::format("has all parameters several times, behind {}: say which "
                                          "prefix is meant",
                                          fmt::join(whole, ", ")));
  }

  // Where most parameters have their state; "" if there is none.
  std::string state_prefix() const {
    std::map<std::string, int> seen;
    for (const std::vector<std::string>& names : names_) {
      for (const std::string& prefix : prefixes(shapes_, names, ".exp_avg")) ++seen[prefix];
    }
    std::string best;
    int most = 0;
    for (const auto& [prefix, count] : seen) {
      if (count <= most) continue;
      most = count;
      best = prefix;
    }
    return best;
  }

  Result<std::vector<NamedTensors>> tensors(const std::string& value,
                                            const std::string& state) const {
    std::vector<NamedTensors> out;
    for (std::size_t p = 0; p < names_.size(); ++p) {
      NamedTensors all{.value = found(shapes_, value, names_[p], ""),
                       .exp_avg = found(shapes_, state, names_[p], ".exp_avg"),
                       .exp_avg_sq = found(shapes_, state, names_[p], ".exp_avg_sq"),
                       .step = found(shapes_, state, names_[p], ".step")};
      const Parameter& parameter = model_.parameters[p];
      if (all.value.empty()) {
        return bad_names(source_, fmt::format("lacks the parameter {}{} of {}", value,
                                              parameter.name, model_.name));
      }
      const bool none = all.exp_avg.empty() && all.exp_avg_sq.empty();
      if (!none && (all.exp_avg.empty() || all.exp_avg_sq.empty() || all.step.empty())) {
        return bad_names(source_, fmt::format("has only a part of AdamW's state of {}: exp_avg, "
                                              "exp_avg_sq and step belong together",
                                              parameter.name));
      }
      for (const std::string& name : {all.value, all.exp_avg, all.exp_avg_sq}) {
        if (name.empty() || shapes_.at(name) == parameter.shape) continue;
        return bad_names(source_, fmt::format("{} is [{}], in {} it is [{}]", name,
                                              fmt::join(shapes_.at(name), ", "), model_.name,
                                              fmt::join(parameter.shape, ", ")));
      }
      out.push_back(std::move(all));
    }
    return out;
  }

 private:
  const Shapes& shapes_;
  const Model& model_;
  const std::string& source_;
  const std::vector<std::vector<std::string>> names_;  // by ParameterId
};

}  // namespace

Result<std::vector<NamedTensors>> match_parameters(const ForeignCheckpoint& checkpoint,
                                                   const Model& model, const std::string& source,
                                                   const std::optional<std::string>& prefix) {
  if (model.parameters.empty()) return std::vector<NamedTensors>{};
  const NameMatch match(checkpoint.tensors(), model, source);
  std::string value;
  if (prefix) {
    value = *prefix;
  } else {
    TESSERA_ASSIGN(value, match.value_prefix());
  }
  return match.tensors(value, match.state_prefix());
}

}  // namespace tessera::exchange
