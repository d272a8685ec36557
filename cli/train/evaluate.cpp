// SPDX-License-Identifier: Apache-2.0
// `tessera evaluate`: the loss and the perplexity of a model on files.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/engine_options.h"
#include "cli/options/names_of.h"
#include "cli/options/scheme_options.h"
#include "cli/report/table.h"
#include "cli/train/data_options.h"
#include "cli/train/open_runtime.h"
#include "cli/train/resumed_run.h"
#include "cli/train/run_facts.h"
#include "engine/text/text_file.h"
#include "tessera/checkpoint.h"
#include "tessera/evaluator.h"
#include "tessera/weights.h"

namespace tessera::cli {
namespace {

constexpr const char* evaluate_examples = R"(Examples:
  tessera evaluate config.json --weights model.safetensors --data book.txt,notes.txt
  mpirun -n 4 tessera evaluate config.json --checkpoint run --data chats.jsonl \
    --tokenizer tokenizer.json --chat-template chatml --json

Exit codes: 0 done, 1 a fault of tessera, 2 bad input.)";

const std::map<std::string, DType> evaluated_dtypes = {
    {"float32", DType::float32}, {"bfloat16", DType::bfloat16}, {"float16", DType::float16}};

struct EvaluateArguments {
  const CLI::App* command = nullptr;
  std::string model;
  std::string weights;
  std::string checkpoint;
  DataArguments data;
  std::string scheme = "fully_shard";
  std::string dtype = "float32";
  std::int64_t batch = 1;
  std::int64_t sequence_length = 0;
  std::int32_t threads = 0;
  RuntimeOptions runtime;
  bool json = false;
};

struct EvaluatedFile {
  std::string name;
  Evaluation found;
};

Evaluation all_of(const std::vector<EvaluatedFile>& files) {
  Evaluation all;
  for (const EvaluatedFile& file : files) {
    all.loss += file.found.loss * static_cast<double>(file.found.targets);
    all.targets += file.found.targets;
  }
  all.loss /= static_cast<double>(all.targets);
  return all;
}

void add_figures(const Evaluation& found, nlohmann::ordered_json& to) {
  to["tokens"] = found.targets;
  to["loss"] = found.loss;
  to["perplexity"] = std::exp(found.loss);
}

std::string text_of(const std::string& title, const std::vector<EvaluatedFile>& files, bool bold) {
  Table table(title, {"file", "tokens", "loss", "perplexity"});
  const auto row = [&](const std::string& name, const Evaluation& found) {
    table.row({name, with_separators(found.targets), fmt::format("{:.4f}", found.loss),
               fmt::format("{:.4f}", std::exp(found.loss))});
  };
  for (const EvaluatedFile& file : files) row(file.name, file.found);
  if (files.size() > 1) row("all", all_of(files));
  return table.text(bold);
}

class EvaluateProgram {
 public:
  explicit EvaluateProgram(const EvaluateArguments& arguments) : a_(arguments) {}
  ~EvaluateProgram() { close_runtime(opened_, a_.runtime.deadline_s); }

  Status run() {
    TESSERA_TRY(check_not_empty(*a_.command));
    TESSERA_TRY(check_no_adapters(a_.checkpoint));
    TESSERA_TRY(check_acting(*a_.command, {{"--ranks", a_.runtime.runtime == "simulator",
                                            "without --runtime simulator"}}));
    if (a_.weights.empty() == a_.checkpoint.empty()) {
      return Status(Code::invalid_argument, "give --weights or --checkpoint, one of them");
    }
    TESSERA_TRY(check_no_stream(a_.model));
    TESSERA_ASSIGN(model_, load_model(a_.model));
    for (Parameter& parameter : model_.parameters) parameter.dtype = DType::float32;
    TESSERA_TRY(open_corpora());
    TESSERA_ASSIGN(const EvaluatorOptions options, evaluator_options());
    TESSERA_ASSIGN(opened_, open_runtime(a_.runtime, read_launch(), {}));
    if (opened_.process != nullptr) TESSERA_TRY(agree(*opened_.process, facts()));
    TESSERA_ASSIGN(evaluator_, Evaluator::create(*opened_.runtime, model_, options));
    TESSERA_TRY(load());
    if (opened_.prints()) print_warnings(warnings());
    std::vector<EvaluatedFile> files;
    for (const Corpus& corpus : corpora_) {
      TESSERA_ASSIGN(const Evaluation found, evaluator_->evaluate(corpus));
      files.push_back({corpus.source(), found});
    }
    TESSERA_TRY(evaluator_->finish());
    TESSERA_TRY(opened_.runtime->finish());
    if (opened_.prints()) print(files);
    return {};
  }

 private:
  Status open_corpora() {
    TESSERA_ASSIGN(const CorpusOptions options, corpus_options(a_.data, a_.model, model_));
    for (const std::string& file : a_.data.files) {
      TESSERA_ASSIGN(Corpus corpus, Corpus::open(file, options));
      corpora_.push_back(std::move(corpus));
      TESSERA_TRY(check_text_options(*a_.command, a_.data, corpora_.back()));
    }
    return {};
  }

  Result<EvaluatorOptions> evaluator_options() {
    EvaluatorOptions options{.scheme = {}, .batch = a_.batch};
    TESSERA_ASSIGN(
        options.scheme,
        resolve_scheme({.scheme = a_.scheme, .param_dtype = a_.dtype, .given = {}}, model_));
    options.dtype = evaluated_dtypes.at(a_.dtype);
    options.threads = a_.threads;
    options.progress = [this] { static_cast<void>(opened_.runtime->poll()); };
    const std::int64_t most = model_.sequence_length_max;
    options.sequence_length = a_.sequence_length > 0
                                  ? a_.sequence_length
                                  : std::min<std::int64_t>(most > 0 ? most : 1024, 8192);
    TESSERA_TRY(check_sequence_length(options.sequence_length, model_));
    return options;
  }

  std::vector<std::string> warnings() const {
    std::vector<std::string> all = model_warnings(a_.model, model_);
    for (std::string& one : checkpoint_warnings(a_.checkpoint, a_.model, model_)) {
      all.push_back(std::move(one));
    }
    for (const Corpus& corpus : corpora_) {
      for (const std::string& warning : corpus.warnings()) all.push_back(warning);
    }
    return all;
  }

  Facts facts() const {
    Facts facts = command_facts(*a_.command, a_.model, model_);
    for (std::size_t k = 0; k < corpora_.size(); ++k) {
      facts.push_back({fmt::format("file {} of --data", k + 1), corpus_fact(corpora_[k])});
    }
    facts.push_back({"--tokenizer", file_fact(a_.data.tokenizer)});
    facts.push_back({"--weights", weights_fact(a_.weights)});
    facts.push_back({"--checkpoint", checkpoint_fact(a_.checkpoint)});
    return facts;
  }

  Status load() {
    if (!a_.weights.empty()) return import_weights(evaluator_->engine(), a_.weights);
    return load_checkpoint(evaluator_->engine(), a_.checkpoint).status();
  }

  void print(const std::vector<EvaluatedFile>& files) const {
    const Rank ranks = opened_.runtime->world().count();
    if (!a_.json) {
      const bool bold = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
      const std::string title = fmt::format("{}, {} on {} {} ({})", model_.name, a_.scheme, ranks,
                                            ranks == 1 ? "rank" : "ranks", opened_.name);
      fmt::print("{}", text_of(title, files, bold));
      return;
    }
    nlohmann::ordered_json json = {{"tessera_evaluation", 1}, {"model", model_.name}};
    add_figures(all_of(files), json);
    for (const EvaluatedFile& file : files) {
      nlohmann::ordered_json one = {{"file", file.name}};
      add_figures(file.found, one);
      json["files"].push_back(one);
    }
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  const EvaluateArguments& a_;
  Model model_;
  std::vector<Corpus> corpora_;
  std::unique_ptr<Evaluator> evaluator_;  // what the runtime still has to do may need it
  OpenedRuntime opened_;
};

void add_evaluate_options(CLI::App& command, EvaluateArguments& a) {
  command.add_option("MODEL", a.model, "Hugging Face config.json")->required();
  command.add_option("--weights", a.weights, "safetensors file")->default_str("");
  command.add_option("--checkpoint", a.checkpoint, "Instead: a checkpoint, or a folder of them")
      ->default_str("");
  command.add_flag("--json", a.json, "Print one JSON object");
  command
      .add_option("--data", a.data.files,
                  "Texts, files of tokens, or JSON lines: a,b, each with a loss of its own")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required()
      ->group("Data");
  add_text_options(command, a.data);
  const char* run = "Run";
  command
      .add_option(
          "--sequence-length", a.sequence_length,
          "The most tokens that a token depends on; 0: as many as the model has places for, "
          "at most 8192")
      ->check(within(0, 1e9))
      ->group(run);
  command.add_option("--batch", a.batch, "Sequences of a pass, per rank")
      ->check(within(1, 1e6))
      ->group(run);
  command.add_option("--scheme", a.scheme, "How parameters are sharded")->group(run);
  command.add_option("--dtype", a.dtype, "Of the passes")
      ->check(names_of(evaluated_dtypes))
      ->group(run);
  command.add_option("--threads", a.threads, "Of the kernels; 0: all that this process may use")
      ->check(within(0, 4096))
      ->group(run);
  command
      .add_option("--runtime", a.runtime.runtime,
                  "Who computes: this process (local), processes through mpi, the simulator; auto: "
                  "whoever launched it, else local")
      ->check(CLI::IsMember({"auto", "local", "mpi", "simulator"}))
      ->group(run);
  command.add_option("--ranks", a.runtime.ranks, "Of the simulator")
      ->check(within(1, 4096))
      ->group(run);
  command
      .add_option("--deadline", a.runtime.deadline_s,
                  "Seconds without anything happening after which a rank gives up")
      ->check(within(0.001, 1e7))
      ->group(run);
}

}  // namespace

void add_evaluate(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<EvaluateArguments>();
  CLI::App* command =
      app.add_subcommand("evaluate", "Measure the loss and perplexity of a model on files");
  command->footer(evaluate_examples);
  a->command = command;
  add_evaluate_options(*command, *a);
  command->callback([a, &exit_code] {
    EvaluateProgram program(*a);
    const Status status = program.run();
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
