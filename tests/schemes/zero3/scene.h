// SPDX-License-Identifier: Apache-2.0
// A zero3 run that is only recorded, and what its notation says.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/parsed_model.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera::test {

/// The recorded runs' options where a test says nothing else.
inline Zero3Options recorded_options() {
  return {.policy = Zero3Policy::compatible,
          .prefetch_bucket = Numel{0},
          .max_reuse_distance = Numel{0},
          .persistence_threshold = Numel{0},
          .reduce_bucket = Numel{1000},
          .sub_group_size = Numel{1'000'000'000'000}};
}

/// "train,eval,forward,step", with graphs as in "train:short".
inline std::vector<TrainingPass> passes(const std::string& text) {
  std::vector<TrainingPass> out;
  for (std::size_t first = 0; first < text.size();) {
    const std::size_t end = std::min(text.find(',', first), text.size());
    const std::string word = text.substr(first, end - first);
    const std::size_t colon = std::min(word.find(':'), word.size());
    const std::string kind = word.substr(0, colon);
    using Kind = TrainingPass::Kind;
    const Kind value = kind == "train"  ? Kind::train
                       : kind == "eval" ? Kind::evaluate
                       : kind == "step" ? Kind::step
                                        : Kind::forward;
    out.push_back({value, colon < word.size() ? word.substr(colon + 1) : ""});
    first = end + 1;
  }
  return out;
}

struct Scene {
  Model model;
  Recording recording;
  std::unique_ptr<Runtime> runtime = make_recording_runtime(2, recording);
  std::unique_ptr<Zero3> engine;

  explicit Scene(const Model& made_of, const Zero3Options& options = recorded_options())
      : model(made_of) {
    auto made = zero3(*runtime, model, options);
    INFO(made.status().message());
    REQUIRE(made.ok());
    engine = std::move(*made);
  }

  Status try_to(const std::string& what) {
    return run_training_step(*engine, model, {.passes = passes(what)});
  }
  Scene& run(const std::string& what) {
    const Status status = try_to(what);
    INFO(what << ": " << status.message());
    REQUIRE(status.ok());
    return *this;
  }

  std::vector<std::string> lines() const {
    return to_deepspeed_notation(recording, engine->parameters());
  }
  /// The lines of one training pass, counted from 1.
  std::vector<std::string> iteration(int number) const {
    std::vector<std::string> out;
    bool inside = false;
    for (const std::string& line : lines()) {
      if (line.rfind("===== ITERATION", 0) == 0) {
        inside = line == "===== ITERATION " + std::to_string(number);
      } else if (inside) {
        out.push_back(line);
      }
    }
    return out;
  }
  /// Lines that begin with one of the words; leading spaces do not count.
  static std::vector<std::string> only(const std::vector<std::string>& all,
                                       const std::vector<std::string>& words) {
    std::vector<std::string> out;
    for (const std::string& line : all) {
      const std::string text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      for (const std::string& word : words) {
        if (text.rfind(word, 0) == 0) out.push_back(text);
      }
    }
    return out;
  }
};

using Lines = std::vector<std::string>;

}  // namespace tessera::test
