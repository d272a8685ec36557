// SPDX-License-Identifier: Apache-2.0
// Two processes of `tessera train` that were not started alike.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera {
namespace {

namespace fs = std::filesystem;

class TwoProcesses {
 public:
  TwoProcesses() {
    fs::remove_all(path_);
    fs::create_directories(path_);
    write("gpt.json", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "n_ctx": 16, "n_embd": 16,
        "n_head": 2, "n_layer": 1, "n_positions": 16, "vocab_size": 256})");
    std::string text;
    for (int k = 0; k < 60; ++k) text += "one of us reads what the other reads. ";
    write("text.txt", text);
    text[text.size() / 2] = 'X';
    write("other.txt", text);
    write("lines.jsonl", R"({"text": "what the other reads", "body": "and writes"})");
    write("letters.json", letters());
    // Two folders with the same index of other weights.
    for (const char* folder : {"here", "there"}) {
      fs::create_directories(path_ / folder);
      write(std::string(folder) + "/index.json", R"({"weight_map": {"wte.weight": "one.st"}})");
      write(std::string(folder) + "/one.st", folder);
    }
    for (const char* rate : {"0.1", "0.2"}) {
      write(std::string("adam-") + rate + ".json", fmt::format(R"({{"bf16": {{"enabled": true}},
          "zero_optimization": {{"stage": 2}},
          "optimizer": {{"type": "AdamW", "params": {{"lr": {}}}}}}})",
                                                               rate));
      write(std::string("plan-") + rate + ".json", fmt::format(R"({{"tessera_plan": 1, // {}
                "units": []}})",
                                                               rate));
      run(
          fmt::format("'{0}' train gpt.json --data text.txt --batch 2 --steps 1 --threads 1 -q "
                      "--learning-rate {1} --save saved-{1} --export weights-{1}",
                      TESSERA_PROGRAM, rate));
    }
  }
  ~TwoProcesses() { fs::remove_all(path_); }

  // The exit code and what was said.
  std::pair<int, std::string> train(const std::string& of_first,
                                    const std::string& of_second) const {
    const auto rank = [](const std::string& options) {
      std::string all = "-n 1 '" TESSERA_PROGRAM "' train gpt.json --threads 1 -q " + options;
      for (const auto& [option, value] :
           {std::pair("--data", "text.txt"), {"--batch", "2"}, {"--steps", "2"}}) {
        if (options.find(option + std::string(" ")) != std::string::npos) continue;
        all += fmt::format(" {} {}", option, value);
      }
      return all;
    };
    return run(fmt::format("{} {} : {}", TESSERA_MPIRUN, rank(of_first), rank(of_second)));
  }

  bool has(const std::string& name) const { return fs::exists(path_ / name); }

 private:
  std::pair<int, std::string> run(const std::string& command) const {
    const int status = std::system(
        fmt::format("cd '{}' && {} > out 2>&1 < /dev/null", path_.string(), command).c_str());
    std::ifstream file(path_ / "out", std::ios::binary);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            std::string(std::istreambuf_iterator<char>(file), {})};
  }

  // A tokenizer without merges.
  static std::string letters() {
    std::string vocabulary;
    int id = 0;
    for (const char letter : std::string("abcdefghijklmnopqrstuvwxyz .12")) {
      vocabulary += fmt::format("{}\"{}\": {}", id == 0 ? "" : ", ", letter, id);
      ++id;
    }
    return R"({"model": {"type": "BPE", "merges": [], "vocab": {)" + vocabulary + "}}}";
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

  const fs::path path_ = fs::path(TESSERA_BINARY_DIR) / "tests" / "scratch" / "mpi_disagreement";
};

// An option as both ranks get it.
struct Difference {
  const char* option;
  const char* first;  // nullptr: not given; "": a flag without a value
  const char* second;
};

// Differences that a run may have all at once: each is named on its own.
struct Disagreement {
  const char* context;  // of both ranks
  std::vector<Difference> differences;
};

const std::vector<Disagreement> disagreements = {
    {"",
     {{"--seed", "1", "2"},
      {"--steps", "2", "3"},
      {"--learning-rate", "0.002", "0.01"},
      {"--weight-decay", "0.2", "0.3"},
      {"--betas", "0.8,0.9", "0.8,0.99"},
      {"--epsilon", "1e-6", "1e-7"},
      {"--warmup", "1", "2"},
      {"--min-lr", "1e-5", "1e-6"},
      {"--max-grad-norm", "1", nullptr},
      {"--batch", "2", "3"},
      {"--sequence-length", "8", "16"},
      {"--accumulation", "2", "3"},
      {"--checkpointing", "none", "full"},
      {"--dropout", "0.1", "0.2"},
      {"--data", "text.txt", "other.txt"}}},
    {"--validation text.txt --save kept",
     {{"--validate-every", "1", "2"},
      {"--validation-batches", "3", "4"},
      {"--keep", "3", "4"},
      {"--save-every", "1", "2"}}},
    {"", {{"--resume", "saved-0.1", "saved-0.2"}, {"--schedule", "cosine", "linear"}}},
    {"", {{"--deepspeed", "adam-0.1.json", "adam-0.2.json"}}},
    {"", {{"--tokenizer", "letters.json", nullptr}, {"--end-of-text", "1", "2"}}},
    {"--data lines.jsonl",
     {{"--begin-of-text", "1", "2"},
      {"--end-of-text", "3", "4"},
      {"--text-key", "text", "body"},
      {"--chat-template", "none", "plain"}}},
    {"--lora rank=1", {{"--export-adapter", nullptr, "adapter"}}},
    {"--export kept.safetensors", {{"--export-dtype", "float32", "bfloat16"}}},
    {"",
     {{"--save", "kept", nullptr},
      {"--export", "kept.safetensors", nullptr},
      {"--lora", "rank=1", "rank=2"},
      {"--trace", "kept.tessera", nullptr},
      {"--validation", "text.txt", "other.txt"},
      {"--load", "weights-0.1", "weights-0.2"},
      {"--deterministic", nullptr, ""},
      {"--no-dropout", nullptr, ""},
      {"--runtime", "mpi", "auto"},
      {"--device", "cpu", "auto"}}},
    {"", {{"--validation", "text.txt", nullptr}, {"--validation-fraction", "0", "0.1"}}},
    {"", {{"--recompute", "norm", "ffn,qkv"}, {"--optimizer-dtype", "bf16", nullptr}}},
    {"", {{"--resume", "saved-0.1", nullptr}}},
    {"--resume saved-0.1", {{"--resume-anyway", "", nullptr}}},
    {"--schedule wsd --steps 4", {{"--decay", "1", "2"}}},
    {"--dtype float16", {{"--loss-scale", "8", "16"}, {"--loss-scale-interval", "2", "3"}}},
    {"", {{"--matmul-dtype", "fp8", nullptr}}},
    {"", {{"--dtype", "bfloat16", "float16"}, {"--data-format", "bytes", "auto"}}},
    // The scheme and what it makes of options.
    {"", {{"--scheme", "zero2", "zero1"}}},
    {"--scheme fully_shard",
     {{"--units", "h.0", nullptr},
      {"--reshard-after-forward", "always", "never"},
      {"--shard-group", "1", "2"},
      {"--reduce-dtype", "float32", "bfloat16"},
      {"--param-dtype", "float32", "bfloat16"},
      {"--offload-params", nullptr, ""},
      {"--gradient-divide-factor", "3", "4"},
      {"--max-input-buffers", "2", "3"}}},
    {"--scheme fully_shard", {{"--plan", "plan-0.1.json", "plan-0.2.json"}}},
    {"--scheme fully_shard",
     {{"--wrap", "GPT2Block", nullptr},
      {"--plain-root", nullptr, ""},
      {"--ignore-modules", "ln_f", nullptr},
      {"--ignore-parameters", nullptr, "ln_f.bias"},
      {"--sharded-dtype", "bfloat16", nullptr}}},
    {"--reshard-after-forward to_group", {{"--reshard-group", "1", "2"}}},
    {"--scheme full_shard",
     {{"--backward-prefetch", "pre", "post"},
      {"--forward-prefetch", nullptr, ""},
      {"--no-limit-all-gathers", nullptr, ""},
      {"--use-orig-params", "", nullptr},
      {"--torch-order", nullptr, ""}}},
    {"--scheme full_shard --reduce-dtype bfloat16", {{"--keep-low-precision-grads", nullptr, ""}}},
    {"--scheme full_shard --forward-prefetch", {{"--torch-1-13", nullptr, ""}}},
    {"--scheme replicate",
     {{"--bucket-cap", "1000", "2000"},
      {"--first-bucket-cap", "500", "600"},
      {"--find-unused-parameters", nullptr, ""},
      {"--gradient-as-bucket-view", "", nullptr},
      {"--static-graph", nullptr, ""},
      {"--own-dtypes", nullptr, ""},
      {"--no-init-sync", "", nullptr},
      {"--no-broadcast-buffers", nullptr, ""},
      {"--comm-hook", "none", "bf16"}}},
    {"--scheme replicate --accumulation 2",
     {{"--bucket-caps", "1000,2000", "1000,3000"}, {"--no-sync", nullptr, ""}}},
    {"--scheme sharded_data_parallel",
     {{"--reduce-buffer-size", "1000", "2000"},
      {"--broadcast-dtype", "float32", "bfloat16"},
      {"--no-sync-models-at-startup", nullptr, ""},
      {"--process-group", "2", "1"}}},
    {"--scheme sharded_data_parallel", {{"--process-groups", "'0 1'", "'0,1'"}}},
    {"--scheme zero2",
     {{"--reduce-bucket", "1000", "2000"},
      {"--allgather-bucket", "1000", "2000"},
      {"--overlap-comm", nullptr, ""},
      {"--reduce-by-all-reduce", nullptr, ""},
      {"--offload-optimizer", "none", "cpu"}}},
    {"--scheme zero2", {{"--round-robin-gradients", nullptr, ""}}},
    {"--scheme zero3",
     {{"--live-budget", "1000000", "2000000"},
      {"--prefetch-bucket", "1000", "2000"},
      {"--max-live-parameters", "1000", "2000"},
      {"--persistence-threshold", "10", "20"},
      {"--model-persistence-threshold", "1000", "2000"},
      {"--leaf-modules", "GPT2Block", nullptr},
      {"--module-granularity", "0", "1"},
      {"--sub-group-size", "1000", "2000"},
      {"--secondary-group", "1", "2"}}},
    {"--scheme zero3",
     {{"--quantized-weights", nullptr, ""},
      {"--quantized-gradients", "", nullptr},
      {"--policy", "strict", "compatible"}}},
    {"--scheme zero3 --policy compatible", {{"--max-reuse-distance", "1000", "2000"}}},
    {"--scheme zero3 --quantized-gradients", {{"--ranks-per-node", "1", "2"}}},
    {"--scheme zero3 --offload-optimizer cpu", {{"--offload-ratio", "0.5", "1"}}},
    {"--scheme zero3 --nvme-smallest 0 --offload-optimizer nvme --nvme-path .",
     {{"--offload-param", "nvme", "cpu"},
      {"--optimizer-nvme-path", ".", nullptr},
      {"--optimizer-buffer-count", "4", "5"},
      {"--pipeline-read", nullptr, ""},
      {"--pipeline-write", "", nullptr},
      {"--nvme-alignment", "1024", "4096"},
      {"--aio-block-size", "4096", "8192"},
      {"--aio-queue-depth", "2", "4"},
      {"--aio-thread-count", "1", "2"}}},
    {"--scheme zero3 --offload-param nvme --nvme-path .",
     {{"--buffer-count", "5", "6"},
      {"--buffer-size", "100000", "200000"},
      {"--nvme-smallest", "0", "10"},
      {"--use-gds", nullptr, ""}}},
    {"--scheme zero3 --offload-param nvme --nvme-smallest 0",
     {{"--seed", "1", "2"}, {"--nvme-path", ".", "/tmp"}}},
    {"--trace kept.tessera", {{"--record-steps", "1", "0"}, {"--no-record-memory", "", nullptr}}}};

// Numbers, paths that are compared by content or by whether there are any, flags, words. The rest
// are more of the same, seconds each.
constexpr std::size_t one_of_each_kind = 8;

// What ranks may have for themselves, and what means nothing to processes on CPUs, where it is
// refused before ranks compare anything.
const std::set<std::string> not_compared = {
    "--threads", "--deadline", "--quiet", "--json", "--csv", "--tensorboard", "--log-every",
    "--cluster", "--ranks", "--peak-flops", "--profile-nccl", "--windows", "--tf32", "--share-gpu",
    "--cuda-graphs", "--hopper-attention", "--pinned-memory",
    // train refuses all values but one
    "--optimizer-states", "--checkpoint-every", "--offload-activations", "--checkpoint-blocks"};

// A path of a machine, which may differ.
bool is_alike(const Difference& d) { return d.option == std::string("--nvme-path"); }

std::string given(const Difference& d, const char* value) {
  return value == nullptr ? "" : fmt::format("{} {} ", d.option, value);
}

// "--seed is 1 on rank 0, but 2 on rank 1", as far as the test knows it: defaults and checksums are
// whatever they are.
std::vector<std::string> parts_of_sentence(const Difference& d) {
  static const std::set<std::string> by_content = {
      "--data", "--validation", "--load", "--deepspeed", "--plan", "--tokenizer", "--resume"};
  static const std::set<std::string> by_presence = {"--save", "--export", "--export-adapter",
                                                    "--trace", "--optimizer-nvme-path"};
  const auto shown = [&](const char* value) -> std::string {
    if (value == nullptr || by_content.contains(d.option)) return "";
    if (*value == '\0' || by_presence.contains(d.option)) return "given";
    std::string text = value;
    text.erase(std::remove(text.begin(), text.end(), '\''), text.end());
    return text;
  };
  const std::string first = shown(d.first);
  const std::string second = shown(d.second);
  return {fmt::format("{} is {}", d.option, first),
          first.empty() ? " on rank 0, but " : fmt::format("{} on rank 0, but ", first),
          second.empty() ? " on rank 1" : fmt::format("but {} on rank 1", second)};
}

void check_refused(const TwoProcesses& processes, const Disagreement& disagreement) {
  std::string first = disagreement.context;
  std::string second = disagreement.context;
  for (const Difference& d : disagreement.differences) {
    first += " " + given(d, d.first);
    second += " " + given(d, d.second);
  }
  INFO("mpirun " << first << " : " << second);
  const auto [code, said] = processes.train(first, second);
  INFO(said);
  CHECK(code == 2);
  CHECK(said.find("ranks disagree before the first step: ") != std::string::npos);
  for (const Difference& d : disagreement.differences) {
    const auto parts = parts_of_sentence(d);
    const std::size_t begin = said.find(parts[0]);
    CHECK((begin != std::string::npos) == !is_alike(d));
    if (begin == std::string::npos) continue;
    const std::string sentence = said.substr(begin, said.find_first_of(";\n", begin) - begin);
    INFO(sentence);
    for (const std::string& part : parts) CHECK(sentence.find(part) != std::string::npos);
  }
}

std::set<std::string> options_of_train() {
  std::set<std::string> found;
  FILE* const help = ::popen(fmt::format("'{}' train --help", TESSERA_PROGRAM).c_str(), "r");
  REQUIRE(help != nullptr);
  char line[4096];
  while (std::fgets(line, sizeof(line), help) != nullptr) {
    const std::string text = line;
    const std::size_t at = text.find("--");
    if (at == std::string::npos || at > 5 || text[0] != ' ') continue;
    found.insert(text.substr(at, text.find_first_of(" \n", at) - at));
  }
  ::pclose(help);
  found.erase("--help");
  return found;
}

TEST_CASE("every option in which ranks could disagree is tried", "[mpi]") {
  std::set<std::string> tried = not_compared;
  for (const Disagreement& one : disagreements) {
    for (const Difference& d : one.differences) tried.insert(d.option);
  }
  CHECK(options_of_train() == tried);
}

TEST_CASE("ranks that disagree end before the first step, naming both values of each option",
          "[mpi]") {
  const TwoProcesses processes;
  for (std::size_t k = 0; k < one_of_each_kind; ++k) check_refused(processes, disagreements[k]);
  check_refused(processes, {"", {{"--load", "here/index.json", "there/index.json"}}});
}

// Minutes: test_mpi_train "[pairs]".
TEST_CASE("ranks that disagree in one option alone end before the first step", "[.][pairs]") {
  const TwoProcesses processes;
  int pairs = 0;
  for (const Disagreement& one : disagreements) {
    for (const Difference& d : one.differences) {
      if (is_alike(d)) continue;
      check_refused(processes, {one.context, {d}});
      ++pairs;
    }
  }
  WARN(pairs << " pairs were tried");
  CHECK(pairs >= 60);
}

TEST_CASE("ranks may differ in what they print and in where their files are", "[mpi]") {
  TwoProcesses processes;
  const auto [code, said] = processes.train("--json log --seed 0", "--log-every 2");
  INFO(said);
  CHECK(code == 0);
  CHECK(processes.has("log"));
}

}  // namespace
}  // namespace tessera
