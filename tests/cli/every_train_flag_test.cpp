// SPDX-License-Identifier: Apache-2.0
// Every flag of train, generate and checkpoint changes numbers, files or what is printed, or is
// refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/scheme.h"
#include "tessera/training.h"
#include "tests/cli/flags.h"
#include "tests/cli/program.h"

namespace tessera::test {
namespace {

constexpr const char* config = R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "n_ctx": 16, "n_embd": 16,
    "n_head": 2, "n_layer": 1, "n_positions": 16, "vocab_size": 256})";

void prepare() {
  std::ofstream(run_folder() + "gpt.json") << config;
  std::ofstream text(run_folder() + "text.txt");
  for (int k = 0; k < 40; ++k) text << "to train is to see it all again. ";
}

// Losses, norms, learning rates: what does not depend on the machine's speed.
std::string numbers_of(const std::string& log) {
  std::string numbers;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::json::parse(line);
    for (const char* key : {"ms", "tokens_per_s", "mfu"}) json.erase(key);
    numbers += json.dump() + "\n";
  }
  return numbers;
}

// What is printed, but for what is measured: of lines of steps only how many there are counts, of
// the speed of a matmul that it is named.
std::string printed(const std::string& output) {
  std::string text;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("step ")) line = "step";
    if (line.starts_with("MFU ") && line.ends_with(" matmul")) line = "MFU";
    text += line + "\n";
  }
  return text;
}

std::string files_below(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    names.push_back(entry.path().string());
    if (entry.path().extension() == ".safetensors") {
      names.back() += " " + std::to_string(entry.file_size());
    } else if (entry.path().extension() == ".tessera") {
      names.back() += " " + told_by_trace(names.back(), false);
    }
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

// In a folder that is empty before: all that a run with these options leaves and says.
std::string trained(const std::string& options) {
  const std::string folder = run_folder() + "flags/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const ProgramRun run =
      run_tessera("train gpt.json --data text.txt --batch 2 --steps 4 --json flags/log " + options);
  return std::to_string(run.exit_code) + printed(run.output) + run.messages +
         numbers_of(folder + "log") + files_below(folder);
}

const std::vector<FlagCase> cases = {
    {"--data", "other.txt", ""},
    {"--data-format", "uint16", ""},
    {"--tokenizer", "letters.json", ""},
    {"--chat-template", "plain", ""},
    {"--begin-of-text", "7", ""},
    {"--end-of-text", "46", ""},
    {"--text-key", "body", ""},
    {"--validation", "text.txt", ""},
    {"--validation-fraction", "0.2", ""},
    {"--validate-every", "2", ""},
    {"--validate-every", "2", "--validation text.txt "},
    {"--validation-batches", "1", ""},
    {"--validation-batches", "1", "--validation text.txt "},
    {"--seed", "3", ""},
    {"--steps", "3", ""},
    {"--learning-rate", "0.01", ""},
    {"--schedule", "constant", ""},
    {"--warmup", "3", ""},
    {"--decay", "2", ""},
    {"--decay", "2", "--schedule wsd "},
    {"--min-lr", "0.0005", ""},
    {"--min-lr", "0.0005", "--schedule constant "},
    {"--weight-decay", "1", ""},
    {"--betas", "0.5,0.5", ""},
    {"--epsilon", "0.1", ""},
    {"--dtype", "bfloat16", ""},
    {"--loss-scale", "8", ""},
    {"--loss-scale", "8", "--dtype float16 "},
    {"--loss-scale-interval", "1", "--dtype float16 "},
    {"--runtime", "simulator", ""},
    {"--device", "cuda", ""},
    {"--profile-nccl", "", ""},
    {"--windows", "on", ""},
    {"--tf32", "", ""},
    {"--cuda-graphs", "", ""},
    {"--hopper-attention", "", ""},
    {"--share-gpu", "", ""},
    {"--pinned-memory", "1", ""},
    {"--ranks", "2", ""},
    {"--ranks", "2", "--runtime simulator "},
    {"--cluster", "dgx-2", ""},
    {"--cluster", "no-such-cluster", "--runtime simulator "},
    {"--save", "flags/run", ""},
    {"--save-every", "2", ""},
    {"--save-every", "2", "--save flags/run "},
    {"--keep", "1", ""},
    {"--keep", "1", "--save flags/run --save-every 2 "},
    {"--resume", "saved", ""},
    {"--resume-anyway", "", "--resume saved --seed 9 "},
    {"--load", "weights.safetensors", ""},
    {"--export", "flags/w.safetensors", ""},
    {"--export-dtype", "bfloat16", ""},
    {"--export-dtype", "bfloat16", "--export flags/w.safetensors "},
    {"--export-adapter", "flags/adapter", ""},
    {"--export-adapter", "flags/adapter", "--lora rank=2 "},
    {"--lora", "rank=2", ""},
    {"--log-every", "3", ""},
    {"--peak-flops", "1e12", ""},
    {"--trace", "flags/x.tessera", ""},
    {"--record-steps", "1", ""},
    {"--record-steps", "1", "--trace flags/x.tessera "},
    {"--no-record-memory", "", ""},
    {"--no-record-memory", "", "--trace flags/x.tessera "},
    {"--json", "flags/other", ""},
    {"--csv", "flags/csv", ""},
    {"--tensorboard", "flags/events", ""},
    {"--dropout", "0.5", ""},
    {"--no-dropout", "", "--dropout 0.5 "},
    {"--quiet", "", ""},
    {"--scheme", "zero3", ""},
    {"--wrap", "NoSuchClass", ""},
    {"--ignore-modules", "h.0", "--runtime simulator --ranks 2 "},
    {"--ignore-modules", "h.0", "--runtime simulator --ranks 2 --scheme replicate "},
    {"--ignore-parameters", "wte.weight", ""},
    {"--plan", "plan.json", ""},
    {"--nvme-path", "/nowhere", "--scheme zero3 --offload-param nvme --nvme-smallest 0 "},
    {"--deepspeed", "ds.json", ""},
    {"--batch", "3", ""},
    {"--sequence-length", "8", ""},
    {"--accumulation", "2", ""},
    {"--no-sync", "", ""},
    {"--max-grad-norm", "0.01", ""},
    {"--optimizer-states", "1", ""},
    {"--optimizer-dtype", "bf16", ""},
    {"--matmul-dtype", "fp8", ""},
    {"--matmul-dtype", "bf16", ""},
    {"--checkpointing", "full", "--trace flags/x.tessera "},
    {"--checkpoint-every", "2", "--checkpointing full "},
    {"--checkpoint-blocks", "h.1", "--checkpointing full "},
    {"--recompute", "norm", "--trace flags/x.tessera "},
    {"--offload-activations", "1", ""},
    {"--gradient-divide-factor", "3", ""}};

// How fast, how long or by which means: no number and no file tells. Each has tests of its own.
const std::vector<std::string> only_how = {
    "--threads",        // the same bits by any number
    "--deterministic",  // of GPUs alone; elsewhere it is always so
    "--deadline"};      // of runs that hang

}  // namespace

TEST_CASE("every flag of train acts or is refused", "[cli][flags][train]") {
  prepare();
  std::ofstream(run_folder() + "other.txt") << std::string(600, 'x') + std::string(600, 'y');
  std::ofstream(run_folder() + "plan.json")
      << R"({"tessera_plan": 1, "units": [{"modules": "h.0", "param_dtype": "float16"}]})";
  std::ofstream(run_folder() + "ds.json")
      << R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})";
  std::filesystem::remove_all(run_folder() + "saved");
  REQUIRE(run_tessera("train gpt.json --data text.txt --steps 2 -q --save saved "
                      "--export weights.safetensors")
              .exit_code == 0);
  std::vector<FlagCase> known = cases;
  for (const std::string& flag : only_how) known.push_back({flag, "", ""});
  for (const OptionFamily& family : option_families()) {
    for (const Option& option : family.options) known.push_back({flag_of(option), "", ""});
  }
  CHECK(missing(flags_of("train"), known) == "");
  // What differs below differs by the flag.
  REQUIRE(trained("") == trained(""));
  REQUIRE(trained("--trace flags/x.tessera ") == trained("--trace flags/x.tessera "));
  for (const FlagCase& one : cases) {
    const std::string argument = one.flag + " " + one.argument;
    INFO("tessera train " << one.context << argument);
    CHECK(trained(one.context) != trained(one.context + argument));
  }
}

TEST_CASE("every flag of tokenize acts or is refused", "[cli][flags][train]") {
  std::ofstream(run_folder() + "letters.json") << R"({"model": {"type": "BPE",
      "vocab": {"t": 0, "o": 1, "s": 2, "e": 3, "<s>": 4}, "merges": []},
      "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}}})";
  std::ofstream(run_folder() + "words.jsonl") << R"({"text": "to", "body": "see"})"
                                              << "\n"
                                              << R"({"text": "see", "body": "to"})"
                                              << "\n";
  const std::string command = "tokenize letters.json words.jsonl";
  const auto tokenized = [&](const std::string& options) {
    return shown(command + " " + options, "words.bin");
  };
  const std::string print = "--print --end-of-text none ";
  CHECK(tokenized(print) == "00 1\n2 3 3\n");
  CHECK(tokenized(print + "--special on --key body") == "04 2 3 3\n4 0 1\n");
  CHECK(tokenized("--print").find("line 2: a second document begins") != std::string::npos);
  CHECK(tokenized(print + "--key none").find("has no text under the key none, but body, text") !=
        std::string::npos);
  CHECK(tokenized("-o words.bin --end-of-text '<s>'") ==
        "0words.bin: 7 tokens of 2 documents, uint16\n" +
            std::string("\0\0\1\0\4\0\2\0\3\0\3\0\4\0", 14));
  const std::vector<FlagCase> tokenize = {
      {"--output", "words.bin", print}, {"--documents", "file", "--print "},
      {"--key", "body", print},         {"--end-of-text", "none", "--print "},
      {"--special", "on", print},       {"--print", "", "--end-of-text none "}};
  CHECK(missing(flags_of("tokenize"), tokenize) == "");
  check_cases(command, "words.bin", tokenize);
}

TEST_CASE("every flag of evaluate acts or is refused", "[cli][flags][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "flagged");
  REQUIRE(run_tessera("train gpt.json --data text.txt --steps 1 --batch 1 -q --save flagged "
                      "--export weights.safetensors")
              .exit_code == 0);
  const std::string weights = "--weights weights.safetensors ";
  const std::vector<FlagCase> evaluate = {{"--weights", "weights.safetensors", ""},
                                          {"--checkpoint", "flagged", ""},
                                          {"--json", "", weights},
                                          {"--data", "other.txt", weights},
                                          {"--data-format", "uint16", weights},
                                          {"--tokenizer", "letters.json", weights},
                                          {"--chat-template", "plain", weights},
                                          {"--begin-of-text", "7", weights},
                                          {"--end-of-text", "46", weights},
                                          {"--text-key", "body", weights},
                                          {"--sequence-length", "5", weights},
                                          {"--batch", "0", weights},
                                          {"--scheme", "zero3", weights},
                                          {"--dtype", "bfloat16", weights},
                                          {"--runtime", "simulator", weights},
                                          {"--ranks", "2", weights},
                                          {"--ranks", "2", weights + "--runtime simulator "}};
  std::vector<FlagCase> known = evaluate;
  for (const char* only : {"--threads", "--deadline"}) known.push_back({only, "", ""});
  CHECK(missing(flags_of("evaluate"), known) == "");
  check_cases("evaluate gpt.json --data text.txt", "", evaluate);
}

TEST_CASE("every flag of generate and checkpoint acts or is refused", "[cli][flags][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "saved");
  REQUIRE(run_tessera("train gpt.json --data text.txt --steps 2 -q --save saved "
                      "--export weights.safetensors")
              .exit_code == 0);
  const std::string weights = "--weights weights.safetensors ";
  const std::vector<FlagCase> generate = {{"--weights", "weights.safetensors", ""},
                                          {"--checkpoint", "saved", ""},
                                          {"--checkpoint", "saved", weights},
                                          {"--prompt", "to", weights},
                                          {"--tokenizer", "tokenizer.json", weights},
                                          {"--end-of-text", "256", weights},
                                          {"--prompt-ids", "1,2", weights},
                                          {"--prompt-ids", "1,2", weights + "--prompt to "},
                                          {"--tokens", "3", weights},
                                          {"--temperature", "0", weights},
                                          {"--top-k", "1", weights},
                                          {"--top-k", "1", weights + "--temperature 0 "},
                                          {"--top-p", "0.1", weights},
                                          {"--top-p", "0.1", weights + "--temperature 0 "},
                                          {"--repetition-penalty", "3", weights},
                                          {"--seed", "3", weights},
                                          {"--seed", "3", weights + "--temperature 0 "}};
  std::vector<FlagCase> known = generate;
  known.push_back({"--threads", "", ""});  // the same bits by any number
  CHECK(missing(flags_of("generate"), known) == "");
  check_cases("generate gpt.json", "", generate);
  const std::vector<FlagCase> json = {{"--json", "", ""}};
  for (const std::string command : {"checkpoint info", "checkpoint verify"}) {
    CHECK(missing(flags_of(command), json) == "");
    check_cases(command + " saved", "", json);
  }
  CHECK(missing(flags_of("checkpoint merge"), {{"--adapter", "", ""}}) == "");
  CHECK(missing(flags_of("checkpoint import"), {{"--prefix", "", ""}, {"--step", "", ""}}) == "");
  const std::vector<FlagCase> of_zero = {{"--ranks", "2", ""},   {"--lr", "0.1", ""},
                                         {"--beta1", "0.8", ""}, {"--beta2", "0.9", ""},
                                         {"--eps", "1e-6", ""},  {"--weight-decay", "0.1", ""}};
  const auto exported = [](const std::string& options) {
    return shown("checkpoint export saved out.safetensors " + options, "out.safetensors");
  };
  for (const FlagCase& one : of_zero) {
    CHECK(exported(one.flag + " " + one.argument).find(one.flag) != std::string::npos);
  }
  CHECK(exported("--shard-size 1").find("--shard-size") != std::string::npos);
  std::vector<FlagCase> of_export = of_zero;
  for (const char* flag : {"--dtype", "--format", "--prefix", "--shard-size"}) {
    of_export.push_back({flag, "", ""});
  }
  CHECK(missing(flags_of("checkpoint export"), of_export) == "");
  CHECK(exported("--prefix transformer.").find("--prefix") != std::string::npos);
  CHECK(exported("") != exported("--dtype bf16"));
  CHECK(exported("") != exported("--dtype bfloat16"));
}

}  // namespace tessera::test
