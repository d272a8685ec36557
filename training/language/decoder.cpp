// SPDX-License-Identifier: Apache-2.0
#include "tessera/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "training/kernels/cross_entropy.h"
#include "training/kernels/threads.h"
#include "training/language/workspace.h"

namespace tessera {

using language::Call;
using language::Plan;
using language::PlannedLayer;

namespace {

// Tokens of a long text go together: then the matrices are read once for all of them.
constexpr std::int64_t tokens_together = 64;
constexpr std::size_t tokens_worth_it = 8;  // fewer cost less one by one
constexpr std::size_t memory_alignment = 64;

// So many tokens at a time, the same number always.
struct Stride {
  std::unique_ptr<Plan> plan;
  Call call;

  std::int64_t tokens() const { return plan->shape.length; }
};

kernels::MatmulShape last_product(const Plan& plan) {
  return {.n = plan.vocabulary, .k = plan.shape.width, .b_transposed = true};
}

}  // namespace

struct Decoder::State {
  Model model;
  std::vector<std::span<const float>> parameters;
  std::int64_t context = 0;
  std::int64_t taken = 0;
  int threads = 1;
  std::vector<Stride> strides;  // the longest first
  std::map<ModuleId, std::byte*> kept;
  std::vector<std::byte> memory;

  Status prepare();
  Status check_parameters() const;
  Status check(std::span<const std::int32_t> tokens) const;
  Bytes lay_out(std::byte* base);
  Stride& stride_for(std::size_t left);
  void run(Stride& stride, std::span<const std::int32_t> tokens);
};

Status Decoder::State::check_parameters() const {
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    const Parameter& p = model.parameters[k];
    const auto given = k < parameters.size() ? parameters[k].size() : 0;
    if (static_cast<std::int64_t>(given) == p.numel().value) continue;
    return Status(Code::invalid_argument, fmt::format("parameter {} has {} elements, given are {}",
                                                      p.name, p.numel().value, given));
  }
  return {};
}

Status Decoder::State::check(std::span<const std::int32_t> tokens) const {
  if (tokens.empty()) return Status(Code::invalid_argument, "a decoder takes at least one token");
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count > context - taken) {
    return Status(Code::invalid_argument,
                  fmt::format("{} tokens after {} are more than the context of {}: forget some",
                              count, taken, context));
  }
  for (const std::int32_t token : tokens) {
    const std::int64_t vocabulary = strides.back().plan->vocabulary;
    if (token >= 0 && token < vocabulary) continue;
    return Status(Code::invalid_argument,
                  fmt::format("token {} is none of the {} of {}", token, vocabulary, model.name));
  }
  return {};
}

// Without memory, says how much there must be.
Bytes Decoder::State::lay_out(std::byte* base) {
  language::Arena arena(base);
  Bytes saves{}, temporary{};
  for (Stride& stride : strides) {
    const Bytes own = language::workspace_at(nullptr, *stride.plan, false).bytes;
    std::byte* const at = arena.bytes(own);
    stride.call.work = language::workspace_at(at, *stride.plan, false).work;
    for (const auto& [id, planned] : stride.plan->layers) {
      if (id == stride.plan->last) continue;
      saves = std::max(saves, planned.layer->saves());
      temporary = std::max(temporary, planned.layer->temporary(false));
    }
  }
  std::byte* const saved_at = arena.bytes(saves);
  std::byte* const temporary_at = arena.bytes(temporary);
  for (Stride& stride : strides) {
    stride.call.saved = saved_at;
    stride.call.temporary = temporary_at;
  }
  for (const auto& [id, planned] : strides.back().plan->layers) {
    kept[id] = arena.bytes(planned.layer->keeps());
  }
  return arena.used();
}

Status Decoder::State::prepare() {
  TESSERA_TRY(check_parameters());
  for (const std::int64_t tokens : {tokens_together, std::int64_t{1}}) {
    if (tokens > context) continue;
    Stride& stride = strides.emplace_back();
    TESSERA_ASSIGN(stride.plan,
                   Plan::make(model, {.length = tokens, .context = context, .threads = threads}));
    stride.call.math = &stride.plan->host;
    TESSERA_TRY(stride.plan->host.prepare(last_product(*stride.plan)));
  }
  memory.resize(static_cast<std::size_t>(lay_out(nullptr).value) + memory_alignment);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  lay_out(memory.data() + (memory_alignment - address % memory_alignment) % memory_alignment);
  for (Stride& stride : strides) {
    const std::vector<float> rotary = language::rotary_of(*stride.plan);
    std::copy(rotary.begin(), rotary.end(), stride.call.work.rotary);
  }
  return {};
}

Stride& Decoder::State::stride_for(std::size_t left) {
  const bool together = left >= tokens_worth_it && taken + strides.front().tokens() <= context;
  return together ? strides.front() : strides.back();
}

// Places of a stride beyond the tokens get keys and values that the next tokens replace before
// anybody sees them.
void Decoder::State::run(Stride& stride, std::span<const std::int32_t> tokens) {
  Call& call = stride.call;
  call.first = taken;
  std::fill_n(call.work.tokens, stride.tokens(), 0);
  std::copy(tokens.begin(), tokens.end(), call.work.tokens);
  for (const ModuleId id : model.forward) {
    const PlannedLayer& planned = stride.plan->layers.at(id);
    call.parameters.clear();
    for (ParameterId p : planned.parameters) {
      call.parameters.push_back(std::as_bytes(parameters[p.index()]));
    }
    if (id == stride.plan->last) break;
    call.kept = kept.at(id);
    planned.layer->forward(call);
  }
  taken += static_cast<std::int64_t>(tokens.size());
}

Result<Decoder> Decoder::create(const Model& model, std::vector<std::span<const float>> parameters,
                                const DecoderOptions& options) {
  auto state = std::make_unique<State>();
  state->model = model;
  state->parameters = std::move(parameters);
  state->context = options.context == 0 ? model.sequence_length_max : options.context;
  state->threads = options.threads == 0 ? kernels::available_threads() : options.threads;
  const std::int64_t most = model.sequence_length_max;
  if (state->context < 1 || (most > 0 && state->context > most)) {
    return Status(Code::invalid_argument, fmt::format("a context of {} tokens: {} has {} places",
                                                      state->context, model.name, most));
  }
  kernels::limit_threads(state->threads);
  TESSERA_TRY(state->prepare());
  return Decoder(std::move(state));
}

Decoder::Decoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

Result<std::vector<float>> Decoder::take(std::span<const std::int32_t> tokens) {
  State& s = *state_;
  TESSERA_TRY(s.check(tokens));
  kernels::limit_threads(s.threads);
  std::vector<float> logits;
  while (!tokens.empty()) {
    Stride& stride = s.stride_for(tokens.size());
    const auto count = std::min(tokens.size(), static_cast<std::size_t>(stride.tokens()));
    s.run(stride, tokens.first(count));
    tokens = tokens.subspan(count);
    if (!tokens.empty()) continue;
    const auto at = static_cast<std::int64_t>(count - 1) * stride.plan->shape.width;
    logits.resize(static_cast<std::size_t>(stride.plan->vocabulary));
    stride.plan->host.product(last_product(*stride.plan), stride.call.work.y.from(at).data,
                              stride.call.parameters.back().data(), logits.data(), {},
                              stride.call.work.scratch);
    if (stride.plan->logit_cap > 0) {
      kernels::cap_logits({1, stride.plan->vocabulary, stride.plan->vocabulary},
                          stride.plan->logit_cap, logits.data(), nullptr, s.threads);
    }
  }
  return logits;
}

void Decoder::forget() { state_->taken = 0; }
std::int64_t Decoder::taken() const { return state_->taken; }
std::int64_t Decoder::context() const { return state_->context; }
Bytes Decoder::memory() const { return Bytes{static_cast<std::int64_t>(state_->memory.size())}; }

}  // namespace tessera
