// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/options/checks.h"
#include "cli/options/names_of.h"
#include "tessera/assert.h"

namespace tessera::cli {
namespace {

using Schedule = LearningRate::Schedule;

const std::map<std::string, Schedule> schedules = {{"constant", Schedule::constant},
                                                   {"linear", Schedule::linear},
                                                   {"cosine", Schedule::cosine},
                                                   {"wsd", Schedule::wsd}};
const std::map<std::string, DType> trained_dtypes = {
    {"float32", DType::float32}, {"fp32", DType::float32},    {"bfloat16", DType::bfloat16},
    {"bf16", DType::bfloat16},   {"float16", DType::float16}, {"fp16", DType::float16}};

void add_data_options(CLI::App& command, TrainArguments& a) {
  const char* group = "Data";
  command
      .add_option("--data", a.data.files,
                  "A text, a file of tokens, or JSON lines; or several, a,b:2.5, with how often an "
                  "epoch takes each")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required()
      ->group(group);
  add_text_options(command, a.data);
  command.add_option("--validation", a.validation.file, "File to measure the loss on, untrained")
      ->default_str("")
      ->group(group);
  command
      .add_option("--validation-fraction", a.validation.fraction,
                  "Instead: the last part of --data, which is not trained on")
      ->check(within(0, 0.9))
      ->group(group);
  command
      .add_option("--validate-every", a.validation.every,
                  "Steps between validations; 0: only after the last")
      ->check(within(0, 1e9))
      ->group(group);
  command
      .add_option("--validation-batches", a.validation.batches,
                  "How many a validation looks at, of all ranks together; 0: all")
      ->check(within(0, 1e9))
      ->group(group);
  command.add_option("--seed", a.seed, "Of initial values and the order of samples")
      ->check(any_uint64())
      ->group(group);
}

void add_optimizer_options(CLI::App& command, TrainArguments& a) {
  const char* group = "Optimizer";
  const auto number = [&](const char* name, double& value, double most, const char* text) {
    command.add_option(name, value, text)->check(within(0, most))->group(group);
  };
  const auto steps = [&](const char* name, std::int64_t& value, const char* text) {
    command.add_option(name, value, text)->check(within(0, 1e9))->group(group);
  };
  command.add_option("--steps", a.steps, "Of the whole run")->check(within(1, 1e9))->group(group);
  number("--learning-rate", a.learning_rate, 1e3, "The highest");
  command.add_option("--schedule", a.schedule, "How it falls afterwards")
      ->check(names_of(schedules))
      ->group(group);
  steps("--warmup", a.warmup, "Steps in which the learning rate rises");
  steps("--decay", a.decay, "wsd: the last steps, in which it falls");
  number("--min-lr", a.least_learning_rate, 1e3, "Where it falls to");
  number("--weight-decay", a.weight_decay, 10, "Of matrices");
  command.add_option("--betas", a.betas, "AdamW's, as 0.9,0.95")
      ->delimiter(',')
      ->expected(2)
      ->check(within(0, 0.9999999))
      ->group(group);
  // By 0 what has no gradient would be divided.
  command.add_option("--epsilon", a.epsilon, "AdamW's")->check(within(1e-30, 1))->group(group);
}

void add_run_options(CLI::App& command, TrainArguments& a) {
  const char* group = "Run";
  command.add_option("--dtype", a.dtype, "Of forward and backward; masters are float32")
      ->check(names_of(trained_dtypes))
      ->group(group);
  command
      .add_option("--matmul-dtype", a.matmul_dtype,
                  "Of what linear layers of blocks multiply: bf16, or fp8 (e4m3, a scale for 128)")
      ->check(CLI::IsMember({"bf16", "fp8"}))
      ->default_str("as --dtype")
      ->group(group);
  command
      .add_option("--loss-scale", a.loss_scale,
                  "float16: the first factor of the loss, which halves when gradients overflow")
      ->check(within(1, 1e30))
      ->default_str("65536")
      ->group(group);
  command
      .add_option("--loss-scale-interval", a.loss_scale_interval,
                  "float16: steps without overflow until it doubles")
      ->check(within(1, 1e9))
      ->default_str("2000")
      ->group(group);
  command
      .add_option("--dropout", a.dropout,
                  "Share of what training drops, wherever the model has dropout")
      ->check(within(0, 0.99))
      ->default_str("as the model says")
      ->group(group);
  command.add_flag("--no-dropout", a.no_dropout, "The same as --dropout 0")
      ->excludes("--dropout")
      ->group(group);
  command.add_option("--threads", a.threads, "Of the kernels; 0: cores / processes")
      ->check(within(0, 4096))
      ->group(group);
  add_runtime_options(command, a.runtime);
}

void add_log_options(CLI::App& command, TrainArguments& a) {
  const char* group = "Output";
  command.add_option("--log-every", a.log_every, "Steps from one line to the next")
      ->check(within(1, 1e9))
      ->group(group);
  const auto file = [&](const char* name, std::string& value, const char* text) {
    command.add_option(name, value, text)->default_str("")->group(group);
  };
  file("--json", a.log.json, "File that gets one JSON object per step");
  file("--csv", a.log.csv, "File that gets one line of numbers per step");
  file("--tensorboard", a.log.tensorboard, "Folder that gets an event file, as TensorBoard reads");
  command
      .add_option(
          "--peak-flops", a.peak_flops,
          "FLOP/s of one rank that MFU refers to; 0: what the GPU's maker states; on CPUs measured")
      ->check(within(0, 1e18))
      ->group(group);
  command
      .add_option("--trace", a.trace,
                  "Trace file that records the run; with {rank} in it: one per rank")
      ->default_str("")
      ->group(group);
  add_recording_options(command, a.recording);
  command.add_flag("-q,--quiet", a.quiet, "Print nothing but errors")->group(group);
}

Result<std::optional<LossScaleOptions>> loss_scale(const TrainArguments& a, DType dtype) {
  using Scale = std::optional<LossScaleOptions>;
  if (!a.loss_scale && !a.loss_scale_interval) return Scale();
  if (dtype != DType::float16) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} is for float16 alone, but this run trains in {}: leave it out, or "
                    "give --dtype float16",
                    a.loss_scale ? "--loss-scale" : "--loss-scale-interval", name_of(dtype)));
  }
  LossScaleOptions scale{.min_scale = 1};
  if (a.loss_scale) scale.initial_scale = static_cast<float>(*a.loss_scale);
  if (a.loss_scale_interval) scale.growth_interval = *a.loss_scale_interval;
  return Scale(scale);
}

LearningRate learning_rate(const TrainArguments& a) {
  return {.schedule = schedules.at(a.schedule),
          .peak = static_cast<float>(a.learning_rate),
          .minimum = static_cast<float>(a.least_learning_rate),
          .warmup = a.warmup,
          .steps = a.steps,
          .decay = a.decay};
}

// Where transformers has dropout: blocks like Llama's only in attention.
void set_dropout(Model& model, float share) {
  Mathematics& m = model.mathematics;
  m.attention_dropout = share;
  const auto has = [&](const char* attention) {
    return std::any_of(model.modules.begin(), model.modules.end(),
                       [&](const Module& each) { return each.class_name == attention; });
  };
  m.embedding_dropout = has("GPT2Attention") ? share : 0;
  m.residual_dropout = has("GPT2Attention") || has("Phi3Attention") ? share : 0;
}

void take_dropout(const TrainArguments& a, TrainRun& run) {
  const std::vector<std::string>& unsaid = run.model.mathematics.unsaid_dropout;
  if (a.dropout || a.no_dropout) {
    set_dropout(run.model, static_cast<float>(a.dropout.value_or(0)));
  } else if (!unsaid.empty()) {
    run.warnings.push_back(
        fmt::format("{}: does not say {}, so nothing is dropped there, where transformers would "
                    "drop 0.1: write them into it, or give --dropout 0.1 or --no-dropout",
                    a.engine.model_path, fmt::join(unsaid, ", ")));
  }
}

// The file's optimizer, instead of what the flags would say if none is given.
Status take_optimizer(const TrainArguments& a, const DeepSpeedConfig& file, TrainerOptions& o) {
  const auto given = [&](const char* flag) { return a.command->count(flag) > 0; };
  for (const char* flag : {"--learning-rate", "--weight-decay", "--betas", "--epsilon"}) {
    if (file.optimizer.empty() || !given(flag)) continue;
    return Status(Code::invalid_argument, fmt::format("{}: {} has an optimizer: change it there",
                                                      flag, a.engine.deepspeed));
  }
  if (file.loss_scale && (a.loss_scale || a.loss_scale_interval)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: the file of --deepspeed decides: change it there",
                              a.loss_scale ? "--loss-scale" : "--loss-scale-interval"));
  }
  if (file.loss_scale) o.loss_scale = file.loss_scale;
  if (file.optimizer.empty()) return {};
  if (!(file.adam.epsilon > 0)) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: optimizer.params.eps is 0, by which what has no gradient would be "
                    "divided: choose 1e-8",
                    a.engine.deepspeed));
  }
  const float peak = file.learning_rate_given ? file.adam.learning_rate : o.learning_rate.peak;
  o.step.adam = file.adam;
  o.step.adam.learning_rate = o.learning_rate.peak = peak;
  // A file without a scheduler keeps its rate.
  if (!given("--schedule")) o.learning_rate.schedule = LearningRate::Schedule::constant;
  return {};
}

Status check_flags(const TrainArguments& a) {
  TESSERA_ASSERT(a.command != nullptr, "options come from a command line");
  TESSERA_TRY(check_not_empty(*a.command));
  const bool saves = !a.files.save.empty();
  const bool validates = a.validation.wanted();
  const bool falls = a.schedule != "constant";
  const bool traces = !a.trace.empty();
  TESSERA_TRY(parse_step_range(a.recording.steps, a.steps).status());
  return check_acting(
      *a.command, {{"--save-every", saves, "without --save"},
                   {"--keep", saves, "without --save"},
                   {"--export-dtype", !a.files.export_to.empty(), "without --export"},
                   {"--export-adapter", !a.engine.lora.empty(), "without --lora"},
                   {"--resume-anyway", !a.files.resume.empty(), "without --resume"},
                   {"--validate-every", validates, "without --validation[-fraction]"},
                   {"--validation-batches", validates, "without --validation[-fraction]"},
                   {"--decay", a.schedule == "wsd", "without --schedule wsd"},
                   {"--min-lr", falls, "with --schedule constant"},
                   {"--record-steps", traces, "without --trace"},
                   {"--no-record-memory", traces, "without --trace"},
                   {"--cluster", a.runtime.runtime == "simulator", "without --runtime simulator"}});
}

// Halves are what --dtype makes of all modules; of 8 bits there are only linear layers.
Status take_matmuls(const std::string& matmul_dtype, TrainerOptions& o) {
  o.fp8 = matmul_dtype == "fp8";
  if (matmul_dtype != "bf16" || o.dtype == DType::bfloat16) return {};
  return Status(Code::invalid_argument,
                fmt::format("--matmul-dtype bf16: this run computes in {}: leave it out, or give "
                            "--dtype bfloat16",
                            name_of(o.dtype)));
}

// Layers with real numbers keep what they keep, in the memory and the dtype that they compute in.
Status check_kept(const Training& training) {
  const TrainingOptions& step = training.training;
  const auto refused = [](const char* why) { return Status(Code::not_supported, why); };
  if (step.checkpointing == ActivationCheckpointing::operators || step.checkpoint_every > 1 ||
      !step.checkpoint_blocks.empty()) {
    return refused(
        "training checkpoints every block as a whole or none: --checkpointing operators, "
        "--checkpoint-every and --checkpoint-blocks are for simulate and ops");
  }
  if (step.offload_activations > 0) {
    return refused(
        "--offload-activations is for simulate and ops: training keeps activations where it "
        "computes");
  }
  if (training.lora && training.lora->dropout > 0) {
    return refused(
        "--lora dropout is for simulate and ops: training gives adapters all of their inputs");
  }
  if (!training.lora || !training.lora->packed) return {};
  return refused(
      "--lora base=nf4 is for simulate and ops: training keeps the frozen weights in the dtype "
      "that it computes in");
}

}  // namespace

void add_train_options(CLI::App& command, TrainArguments& a) {
  a.command = &command;
  a.engine.scheme.param_dtype = "float32";
  a.engine.real = true;
  add_engine_options(command, a.engine);
  add_data_options(command, a);
  add_optimizer_options(command, a);
  add_run_options(command, a);
  add_train_file_options(command, a.files);
  add_log_options(command, a);
}

Result<TrainRun> resolve_train(const TrainArguments& a, Rank ranks) {
  TESSERA_TRY(check(a.files));
  TESSERA_TRY(check_flags(a));
  EngineOptions engine = a.engine;
  // Where masters and gathered parameters are different things, these have the dtype of compute.
  engine.scheme.param_dtype = a.dtype;
  TESSERA_ASSIGN(Training training, resolve(engine, ranks));
  TESSERA_TRY(check_kept(training));
  TrainRun run;
  run.model = std::move(training.model);
  for (Parameter& parameter : run.model.parameters) parameter.dtype = DType::float32;
  run.warnings = std::move(training.warnings);
  take_dropout(a, run);
  TrainerOptions& o = run.options;
  o.scheme = training.scheme;
  o.step = training.training;
  o.dtype = trained_dtypes.at(a.dtype);
  if (!a.engine.deepspeed.empty()) o.dtype = compute_dtype(o.scheme);
  if (a.command->count("--dtype") > 0 && o.dtype != trained_dtypes.at(a.dtype)) {
    return Status(Code::invalid_argument,
                  fmt::format("--dtype {}: by {} the run trains in {}: leave one out", a.dtype,
                              a.engine.deepspeed, name_of(o.dtype)));
  }
  if (a.runtime.tf32 && o.dtype != DType::float32) {
    return Status(Code::invalid_argument,
                  fmt::format("--tf32 is about float32 matrices, but this run trains in {}: leave "
                              "it out",
                              name_of(o.dtype)));
  }
  TESSERA_TRY(take_matmuls(a.matmul_dtype, o));
  if (o.step.adam.states != 2) {
    return Status(Code::not_supported,
                  "--optimizer-states is for simulate and ops: training steps with AdamW, which "
                  "keeps 2");
  }
  const std::optional<StateType> states = o.step.adam.state_type;
  if (states == StateType::int8) {
    return Status(Code::not_supported,
                  "--optimizer-dtype int8 is for simulate and ops: training keeps AdamW's states "
                  "in float32 or bfloat16");
  }
  TESSERA_ASSIGN(o.loss_scale, loss_scale(a, o.dtype));
  o.learning_rate = learning_rate(a);
  o.step.adam = {.learning_rate = o.learning_rate.peak,
                 .beta1 = static_cast<float>(a.betas[0]),
                 .beta2 = static_cast<float>(a.betas[1]),
                 .epsilon = static_cast<float>(a.epsilon),
                 .weight_decay = static_cast<float>(a.weight_decay)};
  if (training.deepspeed) TESSERA_TRY(take_optimizer(a, *training.deepspeed, o));
  o.step.adam.state_type = states;
  o.seed = a.seed;
  o.threads = a.threads;
  run.lora = training.lora;
  if (run.lora) {
    o.adapter_scale = static_cast<float>(run.lora->scale());
    if (a.files.load.empty() && a.files.resume.empty()) {
      run.warnings.push_back(
          "--lora trains beside a model that nobody has trained: name its weights with --load");
    }
  }
  TESSERA_TRY(o.learning_rate.check());
  return run;
}

Result<TrainData> open_data(const TrainArguments& a, const Model& model) {
  if (!a.validation.file.empty() && a.validation.fraction > 0) {
    return Status(Code::invalid_argument,
                  "--validation and --validation-fraction both say what to validate on: leave one "
                  "out");
  }
  TESSERA_ASSIGN(const CorpusOptions options, corpus_options(a.data, a.engine.model_path, model));
  std::vector<CorpusFile> files;
  for (const std::string& text : a.data.files) files.push_back(corpus_file(text));
  TESSERA_ASSIGN(Corpus corpus, Corpus::open(files, options));
  TESSERA_TRY(check_text_options(*a.command, a.data, corpus));
  TrainData data{.corpus = std::move(corpus), .validation = {}};
  if (a.validation.file.empty()) return data;
  TESSERA_ASSIGN(data.validation, Corpus::open(a.validation.file, options));
  return data;
}

void TrainData::apply(const ValidationArguments& arguments, TrainerOptions& options) const {
  if (!arguments.wanted()) return;
  ValidationData what{.batches = arguments.batches};
  if (validation) {
    what.corpus = &*validation;
  } else {
    std::tie(options.data, what.tokens) = corpus.split(arguments.fraction);
  }
  options.validation = what;
}

}  // namespace tessera::cli
