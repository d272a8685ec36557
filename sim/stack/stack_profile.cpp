// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/stack_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/text/json_reader.h"
#include "sim/cluster/object_reader.h"
#include "sim/cluster/presets.h"
#include "sim/stack/profile_checks.h"

namespace tessera::sim {
namespace {

using Json = nlohmann::json;

constexpr const char* losses[] = {"eager", "fused", "chunked"};
constexpr const char* matmul_dtypes[] = {"bf16", "fp8"};
constexpr const char* state_types[] = {"fp32", "bf16", "int8"};
constexpr const char* programs[] = {"framework", "train"};
constexpr const char* saved[] = {"eager", "fused", "compiled"};
constexpr const char* allocators[] = {"events", "pytorch", "expandable", "planned"};

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
                {"tessera_profile",
                 "name",
                 "begins_with",
                 "source",
                 "attention",
                 "score_passes",
                 "elementwise_bytes",
                 "kernels",
                 "host_kernel_ns",
                 "host_module_ns",
                 "host_collective_ns",
                 "host_micro_batch_ns",
                 "host_step_ns",
                 "host_pass_ns",
                 "contention",
                 "collectives",
                 "gradient_bytes",
                 "program",
                 "threads",
                 "loss",
                 "saves",
                 "dropout",
                 "optimizer_dtype",
                 "matmul_dtype",
                 "cast_bytes",
                 "casts_weights",
                 "allocator",
                 "context_bytes",
                 "autocast",
                 "one_thread",
                 "between_ns",
                 "parts",
                 "calibrated_runs",
                 "calibrated_p90"},
                status),
        where_(where),
        profile_(profile),
        status_(status) {}

  void read() {
    if (reader_.has("tessera_profile") && reader_.number("tessera_profile", -1e300, 1e300) != 1) {
      reader_.fail("tessera_profile", "must be 1, the only version there is");
    }
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
    time("host_step_ns", profile_.host_step_ns);
    time("host_pass_ns", profile_.host_pass_ns);
    number("contention", profile_.contention, 0, 0.99);
    if (reader_.has("dropout")) profile_.dropout = reader_.integer("dropout", 0, 1) == 1;
    number("collectives", profile_.collectives, 0.1, 100);
    number("gradient_bytes", profile_.gradient_bytes, 0, 100);
    choice("matmul_dtype", matmul_dtypes, profile_.fp8);
    number("cast_bytes", profile_.cast_bytes, 0, 100);
    if (reader_.has("casts_weights")) profile_.casts_weights = reader_.flag("casts_weights");
    StateType states = profile_.optimizer_dtype.value_or(StateType::float32);
    choice("optimizer_dtype", state_types, states);
    if (reader_.has("optimizer_dtype")) profile_.optimizer_dtype = states;
    choice("program", programs, profile_.program);
    if (reader_.has("threads")) profile_.threads = reader_.integer("threads", 1, 4096);
    choice("loss", losses, profile_.loss);
    choice("saves", saved, profile_.saves);
    choice("allocator", allocators, profile_.allocator);
    if (reader_.has("context_bytes")) {
      profile_.context = Bytes{reader_.integer("context_bytes", 0, 1e15)};
    }
    if (reader_.has("autocast")) profile_.autocast = reader_.flag("autocast");
    if (reader_.has("one_thread")) profile_.one_thread = reader_.flag("one_thread");
    time("between_ns", profile_.between_ns);
    if (reader_.has("parts")) parts();
    if (reader_.has("calibrated_runs")) {
      profile_.calibrated_runs = reader_.integer("calibrated_runs", 0, 1e9);
    }
    number("calibrated_p90", profile_.calibrated_p90, 0, 1000);
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
  // {"mlp": {"forward": {"start_ns": 900, "factor": 1.2}}}
  void parts() {
    profile_.parts.clear();
    for (const auto& [part, phases] : reader_.table("parts").items()) {
      const std::string where = fmt::format("{}parts.{}.", where_, part);
      ObjectReader of_part(phases, where, {"none", "init", "forward", "backward", "optimizer"},
                           status_);
      if (phases.empty()) of_part.fail("", "says nothing of any phase");
      for (int p = 0; p <= static_cast<int>(Phase::optimizer); ++p) {
        const std::string phase(name_of(static_cast<Phase>(p)));
        if (!of_part.has(phase.c_str())) continue;
        ObjectReader time(of_part.object(phase.c_str()), where + phase + ".",
                          {"start_ns", "factor"}, status_);
        const std::string known(part_of(part, Reason::none));
        const auto same = [&](const PartTime& other) {
          return other.part == known && other.phase == static_cast<Phase>(p);
        };
        if (std::any_of(profile_.parts.begin(), profile_.parts.end(), same)) {
          of_part.fail(phase, fmt::format("is there twice: other families call {} so", known));
        }
        profile_.parts.push_back({known, static_cast<Phase>(p), time.nanoseconds("start_ns"),
                                  time.number("factor", 0, 1e6)});
      }
    }
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
  const StackProfile base = profile;
  profile.name = std::filesystem::path(source).stem().string();
  Status status;
  ProfileReader(json, source + ": ", profile, status).read();
  if (!status.ok()) return status;
  if (!shipped) TESSERA_TRY(check_profile(json, profile, base, source));
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

const char* name_of(StackProfile::Allocator allocator) {
  return allocators[static_cast<std::size_t>(allocator)];
}

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
  json["host_step_ns"] = p.host_step_ns;
  json["host_pass_ns"] = p.host_pass_ns;
  json["contention"] = p.contention;
  json["collectives"] = p.collectives;
  json["gradient_bytes"] = p.gradient_bytes;
  if (p.program != StackProfile::Program::framework) {
    json["program"] = programs[static_cast<std::size_t>(p.program)];
    json["threads"] = p.threads;
  }
  json["loss"] = name_of(p.loss);
  json["saves"] = saved[static_cast<std::size_t>(p.saves)];
  json["dropout"] = p.dropout ? 1 : 0;
  if (p.fp8) {
    json["matmul_dtype"] = "fp8";
    json["cast_bytes"] = p.cast_bytes;
    json["casts_weights"] = p.casts_weights;
  }
  if (p.optimizer_dtype) {
    json["optimizer_dtype"] = state_types[static_cast<std::size_t>(*p.optimizer_dtype)];
  }
  json["allocator"] = allocators[static_cast<std::size_t>(p.allocator)];
  json["context_bytes"] = p.context.value;
  if (p.autocast) json["autocast"] = true;
  if (p.one_thread) json["one_thread"] = true;
  if (p.between_ns > 0) json["between_ns"] = p.between_ns;
  for (const PartTime& t : p.parts) {
    json["parts"][t.part][std::string(name_of(t.phase))] = {{"start_ns", t.start_ns},
                                                            {"factor", t.factor}};
  }
  if (p.calibrated_runs > 0) {
    json["calibrated_runs"] = p.calibrated_runs;
    json["calibrated_p90"] = p.calibrated_p90;
  }
  return json.dump();
}

namespace {

// What families call the same work: what was measured of one serves another.
std::string_view one_name(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"attn", "self_attn"},
      {"attention", "self_attn"},
      {"ln_1", "input_layernorm"},
      {"ln_2", "post_attention_layernorm"},
      {"ln_f", "norm"},
      {"final_layer_norm", "norm"},
      {"wte", "embed_tokens"},
      {"wpe", "embed_tokens"},
      {"embed_in", "embed_tokens"},
      {"embed_out", "lm_head"}};
  for (const auto& [other, one] : names) {
    if (name == other) return one;
  }
  return name;
}

}  // namespace

std::string_view part_of(std::string_view module, Reason reason) {
  while (!module.empty()) {
    const std::size_t dot = module.rfind('.');
    const std::string_view last = dot == module.npos ? module : module.substr(dot + 1);
    if (last.find_first_not_of("0123456789") != last.npos) return one_name(last);
    module = dot == module.npos ? std::string_view() : module.substr(0, dot);
  }
  return name_of(reason);
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
