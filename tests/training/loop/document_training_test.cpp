// SPDX-License-Identifier: Apache-2.0
// Documents that share a sequence train as if each were alone, on any number of ranks.
#include <catch2/catch.hpp>
#include <cmath>

#include "tessera/decoder.h"
#include "tessera/evaluator.h"
#include "tessera/host_runtime.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/require_ok.h"
#include "tests/sim/test_costs.h"
#include "tests/training/loop/training_scene.h"

namespace tessera {
namespace {

using test::require_ok;
using test::require_value;

// Twelve documents of five tokens, of which the first two are a prompt.
std::vector<Document> questions() {
  std::vector<Document> documents(12);
  for (std::int32_t d = 0; d < 12; ++d) {
    for (std::int32_t k = 0; k < 5; ++k) {
      documents[static_cast<std::size_t>(d)].tokens.push_back((7 * d + k * k) % 40);
      documents[static_cast<std::size_t>(d)].learned.push_back(k > 1 || d % 3 == 0);
    }
  }
  return documents;
}

Corpus corpus_of(const std::vector<Document>& documents) {
  return require_value(Corpus::from_documents(documents, "questions", {.vocabulary = 40}));
}

std::unique_ptr<sim::LockstepRuntime> simulator(Rank ranks, const test::TestCosts& costs) {
  return require_value(
      sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true}));
}

struct Sizes {
  std::int64_t batch = 1, length = 4;
  std::int32_t accumulation = 1;
  Rank ranks = 1;
  bool checkpointed = false;
};

// All of an epoch is one step, so the order of samples does not matter.
std::vector<float> trained(const Model& model, const Corpus& corpus, const Sizes& sizes,
                           DType dtype = DType::float32) {
  TrainerOptions options{.scheme = FullyShardOptions{.param_dtype = dtype}};
  options.step.batch = sizes.batch;
  options.step.sequence_length = sizes.length;
  options.step.accumulation = sizes.accumulation;
  if (sizes.checkpointed) options.step.checkpointing = ActivationCheckpointing::full;
  options.learning_rate = {.peak = 0.01F, .steps = 4};
  options.dtype = dtype;
  options.seed = 5;
  options.threads = 1;
  options.validation = ValidationData{.corpus = &corpus, .tokens = {}, .batches = 0};
  const test::TestCosts costs;
  const auto runtime = simulator(sizes.ranks, costs);
  auto trainer = require_value(Trainer::create(*runtime, model, corpus, options));
  std::vector<float> figures;
  for (int k = 0; k < 4; ++k) {
    const TrainedStep step = require_value(trainer->step());
    figures.insert(figures.end(), {step.loss, step.grad_norm});
  }
  figures.push_back(require_value(trainer->validate()));
  require_ok(trainer->finish());
  require_ok(runtime->finish());
  return figures;
}

// The mean of what each token costs, one at a time: nothing is shared with evaluation but layers.
double decoded_loss(const Model& model, const std::vector<std::vector<float>>& values,
                    const std::vector<Document>& documents) {
  const std::vector<std::span<const float>> parameters(values.begin(), values.end());
  auto decoder = require_value(Decoder::create(model, parameters, {.threads = 1}));
  double sum = 0;
  double count = 0;
  for (const Document& document : documents) {
    decoder.forget();
    for (std::size_t k = 0; k + 1 < document.tokens.size(); ++k) {
      const auto logits = require_value(decoder.take(std::span(&document.tokens[k], 1)));
      if (!document.learned[k + 1]) continue;
      double all = 0;
      for (const float logit : logits) all += std::exp(static_cast<double>(logit));
      sum += std::log(all) -
             static_cast<double>(logits[static_cast<std::size_t>(document.tokens[k + 1])]);
      ++count;
    }
  }
  return sum / count;
}

double evaluated(const Model& model, const Corpus& corpus, std::int64_t batch, Rank ranks,
                 std::vector<std::vector<float>>* values = nullptr) {
  const test::TestCosts costs;
  const auto runtime = simulator(ranks, costs);
  auto evaluator =
      require_value(Evaluator::create(*runtime, model,
                                      {.scheme = Zero3Options{.param_dtype = DType::float32},
                                       .batch = batch,
                                       .sequence_length = 8,
                                       .threads = 1}));
  const auto initial = [](ParameterId p, Numel i) {
    const std::int64_t mixed = (p.value * 131 + i.value * 29) % 97 - 48;
    return static_cast<float>(mixed) * 0.01F;
  };
  require_ok(evaluator->engine().initialise(initial));
  for (std::size_t p = 0; values != nullptr && p < model.parameters.size(); ++p) {
    auto& own = values->emplace_back();
    for (Numel i{0}; i < model.parameters[p].numel(); i = i + Numel{1}) {
      own.push_back(initial(ParameterId{static_cast<std::int32_t>(p)}, i));
    }
  }
  const Evaluation found = require_value(evaluator->evaluate(corpus));
  require_ok(evaluator->finish());
  require_ok(runtime->finish());
  return found.loss;
}

}  // namespace

TEST_CASE("documents packed into one sequence train as if each were alone",
          "[trainer][documents]") {
  const Corpus corpus = corpus_of(questions());
  for (const bool llama : {false, true}) {
    const Model model = llama ? test::small_grouped_llama() : test::small_gpt();
    INFO(model.name);
    const auto alone = trained(model, corpus, {.batch = 12, .length = 4});
    for (const bool checkpointed : {false, true}) {
      const auto packed =
          trained(model, corpus, {.batch = 6, .length = 8, .checkpointed = checkpointed});
      REQUIRE(packed.size() == alone.size());
      for (std::size_t k = 0; k < alone.size(); ++k) {
        CHECK(packed[k] == Approx(alone[k]).epsilon(1e-5));
      }
    }
    CHECK(alone[0] > alone[6]);
  }
}

TEST_CASE("documents give the same bits on one rank and on four", "[trainer][documents]") {
  const Corpus corpus = corpus_of(questions());
  for (const bool llama : {false, true}) {
    const Model model = llama ? test::small_grouped_llama() : test::small_gpt();
    const auto one = trained(model, corpus, {.batch = 1, .length = 8, .accumulation = 4});
    const auto four = trained(model, corpus, {.batch = 1, .length = 8, .ranks = 4});
    REQUIRE(one.size() == four.size());
    for (std::size_t k = 0; k < one.size(); ++k) {
      if (k % 2 == 0) CHECK(one[k] == four[k]);  // norms are sums over shards
    }
  }
}

TEST_CASE("halves train on documents, too", "[trainer][documents]") {
  const Corpus corpus = corpus_of(questions());
  const auto figures =
      trained(test::small_gpt(), corpus, {.batch = 2, .length = 8}, DType::bfloat16);
  CHECK(std::isfinite(figures.back()));
  CHECK(figures.back() < figures.front());
}

TEST_CASE("evaluation finds what single tokens cost, with any batch and number of ranks",
          "[trainer][documents]") {
  const auto documents = questions();
  const Corpus corpus = corpus_of(documents);
  for (const bool llama : {false, true}) {
    const Model model = llama ? test::small_grouped_llama() : test::small_gpt();
    std::vector<std::vector<float>> values;
    const double loss = evaluated(model, corpus, 1, 1, &values);
    CHECK(loss == Approx(decoded_loss(model, values, documents)).epsilon(1e-5));
    CHECK(evaluated(model, corpus, 1, 4) == loss);
    CHECK(evaluated(model, corpus, 5, 1) == evaluated(model, corpus, 5, 3));
    // A row of tokens: each but the first is foretold once, in windows of eight.
    const Corpus row = test::small_corpus();
    std::vector<Document> windows;
    for (std::int64_t first = 0; first + 1 < row.tokens(); first += 8) {
      auto& tokens = windows.emplace_back().tokens;
      tokens.resize(static_cast<std::size_t>(std::min<std::int64_t>(9, row.tokens() - first)));
      require_ok(row.read(first, tokens));
      windows.back().learned.assign(tokens.size(), true);
    }
    CHECK(evaluated(model, row, 3, 2) ==
          Approx(decoded_loss(model, values, windows)).epsilon(1e-5));
  }
}

TEST_CASE("attention does not look across a border in files of tokens", "[trainer][documents]") {
  const std::string text = "abcdefgh|ijklm|nopqrstuvwxyz|aceg|bdfh";
  std::string numbers;
  for (const char c : text) numbers += static_cast<char>(c == '|' ? 39 : c - 'a');
  const Corpus bordered = require_value(
      Corpus::from_bytes(numbers, "row", {.vocabulary = 40, .documents = {.end_of_text = 39}}));
  // The same, cut by hand: each border begins a document and ends the one before.
  std::vector<Document> documents;
  for (std::size_t window = 0; window + 1 < numbers.size(); window += 8) {
    documents.emplace_back();
    for (std::size_t k = window; k < std::min(window + 9, numbers.size()); ++k) {
      auto* one = &documents.back();
      one->tokens.push_back(numbers[k]);
      one->learned.push_back(true);
      if (numbers[k] != 39 || k == window || k == window + 8) continue;
      documents.emplace_back();
      documents.back().tokens.push_back(39);
      documents.back().learned.push_back(true);
    }
  }
  for (const bool llama : {false, true}) {
    const Model model = llama ? test::small_grouped_llama() : test::small_gpt();
    std::vector<std::vector<float>> values;
    const double loss = evaluated(model, bordered, 2, 1, &values);
    CHECK(loss == Approx(decoded_loss(model, values, documents)).epsilon(1e-5));
  }
}

}  // namespace tessera
