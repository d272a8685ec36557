// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/stack_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/text/json_reader.h"
#include "sim/cluster/object_reader.h"
#include "sim/cluster/presets.h"

namespace tessera::sim {
namespace {

using Json = nlohmann::json;

constexpr const char* losses[] = {"eager", "fused", "chunked"};
constexpr const char* allocators[] = {"events", "caching"};

Result<StackProfile> read_profile(std::string_view text, const std::string& source, bool shipped);

Result<StackProfile> find_shipped(const std::string& name) {
  for (const ShippedFile& profile : shipped_profiles()) {
    if (profile.name == name) return read_profile(profile.json, name, true);
  }
  return Status(Code::invalid_argument,
                fmt::format("profile '{}' is neither shipped ({}) nor a file that can be read",
                            name, fmt::join(shipped_profile_names(), ", ")));
}

// Every key may be left out: it keeps what the profile that it begins with says.
class ProfileReader {
 public:
  ProfileReader(const Json& json, const std::string& where, StackProfile& profile, Status& status)
      : reader_(json, where,
                {"tessera_profile", "name", "begins_with", "source", "attention", "score_passes",
                 "elementwise_bytes", "kernels", "host_kernel_ns", "host_module_ns",
                 "host_collective_ns", "host_micro_batch_ns", "contention", "collectives",
                 "gradient_bytes", "loss", "dropout", "allocator", "context_bytes"},
                status),
        where_(where),
        profile_(profile),
        status_(status) {}

  void read() {
    text("name", profile_.name);
    text("source", profile_.source);
    text("attention", profile_.attention);
    number("score_passes", profile_.score_passes, 0, 1000);
    number("elementwise_bytes", profile_.elementwise_bytes, 0, 100);
    number("kernels", profile_.kernels, 0, 100);
    time("host_kernel_ns", profile_.host_kernel_ns);
    time("host_module_ns", profile_.host_module_ns);
    time("host_collective_ns", profile_.host_collective_ns);
    time("host_micro_batch_ns", profile_.host_micro_batch_ns);
    number("contention", profile_.contention, 0, 0.99);
    double dropout = profile_.dropout ? 1 : 0;
    number("dropout", dropout, 0, 1);
    profile_.dropout = dropout > 0;
    number("collectives", profile_.collectives, 0.1, 100);
    number("gradient_bytes", profile_.gradient_bytes, 0, 100);
    choice("loss", losses, profile_.loss);
    choice("allocator", allocators, profile_.allocator);
    if (reader_.has("context_bytes")) {
      profile_.context = Bytes{reader_.integer("context_bytes", 0, 1e15)};
    }
  }

 private:
  void text(const char* key, std::string& value) {
    if (reader_.has(key)) value = reader_.text(key);
  }
  void number(const char* key, double& value, double least, double most) {
    if (reader_.has(key)) value = reader_.number(key, least, most);
  }
  void time(const char* key, Time& value) {
    if (reader_.has(key)) value = reader_.nanoseconds(key);
  }
  template <class Choice, std::size_t n>
  void choice(const char* key, const char* const (&names)[n], Choice& value) {
    if (!reader_.has(key)) return;
    const std::string name = reader_.text(key);
    const auto* const found = std::find(std::begin(names), std::end(names), name);
    if (found != std::end(names)) {
      value = static_cast<Choice>(found - std::begin(names));
    } else if (status_.ok()) {
      status_ =
          Status(Code::invalid_argument, fmt::format("{}{} must be one of {}, found '{}'", where_,
                                                     key, fmt::join(names, ", "), name));
    }
  }

  ObjectReader reader_;
  const std::string where_;
  StackProfile& profile_;
  Status& status_;
};

Result<StackProfile> read_profile(std::string_view text, const std::string& source, bool shipped) {
  TESSERA_ASSIGN(const Json json, parse_json(text, source));
  StackProfile profile;
  const bool more = json.is_object() && json.contains("begins_with");
  if (more && (shipped || !json["begins_with"].is_string())) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: begins_with must name a shipped profile", source));
  }
  if (more) {
    TESSERA_ASSIGN(profile, find_shipped(json["begins_with"].get<std::string>()));
  }
  Status status;
  ProfileReader(json, source + ": ", profile, status).read();
  if (!status.ok()) return status;
  return profile;
}

}  // namespace

Result<StackProfile> load_profile(const std::string& name_or_path) {
  Result<StackProfile> found = find_shipped(name_or_path);
  if (found.ok()) return found;
  std::ifstream file(name_or_path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return found;
  return read_profile(text.str(), name_or_path, false);
}

Result<StackProfile> parse_profile(std::string_view json, const std::string& source) {
  return read_profile(json, source, false);
}

std::vector<std::string> shipped_profile_names() {
  std::vector<std::string> names;
  for (const ShippedFile& profile : shipped_profiles()) names.emplace_back(profile.name);
  return names;
}

const char* name_of(StackProfile::Loss loss) { return losses[static_cast<std::size_t>(loss)]; }

std::string to_json(const StackProfile& p) {
  nlohmann::ordered_json json;
  json["name"] = p.name;
  json["attention"] = p.attention;
  if (p.attention == "unfused") json["score_passes"] = p.score_passes;
  json["elementwise_bytes"] = p.elementwise_bytes;
  json["kernels"] = p.kernels;
  json["host_kernel_ns"] = p.host_kernel_ns;
  json["host_module_ns"] = p.host_module_ns;
  json["host_collective_ns"] = p.host_collective_ns;
  json["host_micro_batch_ns"] = p.host_micro_batch_ns;
  json["contention"] = p.contention;
  json["collectives"] = p.collectives;
  json["gradient_bytes"] = p.gradient_bytes;
  json["loss"] = name_of(p.loss);
  json["dropout"] = p.dropout ? 1 : 0;
  json["allocator"] = allocators[static_cast<std::size_t>(p.allocator)];
  json["context_bytes"] = p.context.value;
  return json.dump();
}

Result<const AttentionCurve*> attention_of(const StackProfile& profile, const Gpu& gpu) {
  if (profile.attention == "unfused" || gpu.attention.empty()) return nullptr;
  if (profile.attention == "best") {
    return &*std::max_element(
        gpu.attention.begin(), gpu.attention.end(),
        [](const AttentionCurve& a, const AttentionCurve& b) { return a.forward < b.forward; });
  }
  if (const AttentionCurve* const curve = gpu.find_attention(profile.attention)) return curve;
  std::vector<std::string> names{"best", "unfused"};
  for (const AttentionCurve& curve : gpu.attention) names.push_back(curve.name);
  return Status(Code::invalid_argument,
                fmt::format("attention '{}' is not known of {}: choose one of {}",
                            profile.attention, gpu.name, fmt::join(names, ", ")));
}

}  // namespace tessera::sim
