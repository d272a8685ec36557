// SPDX-License-Identifier: Apache-2.0
// `tessera train` with a model that is tiny.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace tessera::test {

inline constexpr const char* config =
    R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
    "activation_function": "gelu_new", "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
    "layer_norm_epsilon": 1e-05, "n_ctx": 16, "n_embd": 16,
    "n_head": 2, "n_layer": 1, "n_positions": 16, "vocab_size": 256})";

inline void write(const std::string& name, const std::string& text) {
  std::ofstream(run_folder() + name, std::ios::binary) << text;
}

inline void prepare() {
  write("gpt.json", config);
  std::string text;
  for (int k = 0; k < 40; ++k) text += "to train is to see it all again. ";
  write("text.txt", text);
}

inline std::string text_of(const std::string& name) {
  std::ifstream file(run_folder() + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "step" lines of a --json file.
inline std::vector<nlohmann::json> lines_of(const std::string& name) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(run_folder() + name);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

inline std::vector<double> losses_of(const std::string& name) {
  std::vector<double> losses;
  for (const auto& line : lines_of(name)) losses.push_back(line["loss"]);
  return losses;
}

inline ProgramRun train(const std::string& options) {
  return run_tessera("train gpt.json --data text.txt --batch 2 --steps 6 --threads 1 " + options);
}

inline std::string refusal(const std::string& options) {
  const ProgramRun run = run_tessera("train gpt.json --steps 1 " + options);
  CHECK(run.exit_code == 2);
  CHECK(run.output.empty());
  return run.messages;
}

}  // namespace tessera::test
