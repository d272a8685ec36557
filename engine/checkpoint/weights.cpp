// SPDX-License-Identifier: Apache-2.0
#include "tessera/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/base/engine_base.h"
#include "engine/checkpoint/engine_state.h"
#include "engine/checkpoint/weight_files.h"
#include "engine/checkpoint/weights_file.h"
#include "engine/numbers/number.h"
#include "tessera/assert.h"
#include "tessera/lora.h"

namespace tessera {
namespace {

// A tensor of the files for every parameter, by ParameterId; no `stored`: none.
using Sources = std::vector<PublishedTensor>;

Status bad(const std::string& file, const std::string& what) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", file, what));
}

// Published GPT-2 files name modules with or without the language model around them; those of
// GPT-NeoX call the head embed_out, whatever its module is called.
ParameterId find_published(const Model& model, const std::string& name) {
  const ParameterId id = model.find_parameter(name);
  if (id.valid()) return id;
  if (name == "embed_out.weight") return model.find_parameter("lm_head.weight");
  if (name == "lm_head.weight") return model.find_parameter("embed_out.weight");
  constexpr std::string_view prefix = "transformer.";
  return name.starts_with(prefix) ? model.find_parameter(name.substr(prefix.size())) : id;
}

// Published files of GPT-2 and GPT-NeoX also contain causal masks and frequencies, which are no
// parameters.
bool is_mask(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

// Two tensors of one parameter, such as the head's beside the embedding to which it is tied.
Status check_alike(WeightFiles& weights, const std::string& file, const PublishedTensor& one,
                   const PublishedTensor& other, const Model& model) {
  constexpr std::int64_t piece = 1 << 20;  // elements
  const StoredTensor &a = *one.stored, &b = *other.stored;
  bool alike = a.dtype == b.dtype;
  const std::int64_t all = a.numel().value;
  std::vector<std::byte> here, there;
  for (std::int64_t first = 0; alike && first < all; first += piece) {
    const auto count = static_cast<std::size_t>(std::min(piece, all - first));
    here.resize(count * static_cast<std::size_t>(size_of(a.dtype).value));
    there.resize(here.size());
    TESSERA_TRY(weights.read(one, Numel{first}, here));
    TESSERA_TRY(weights.read(other, Numel{first}, there));
    alike = here == there;
  }
  if (alike) return {};
  return bad(file, fmt::format("tensors {} and {} differ, but are one parameter of {}: remove one, "
                               "or say tie_word_embeddings false in its config.json if both count",
                               a.name, b.name, model.name));
}

// Files of a base model have no adapters.
Result<Sources> match(WeightFiles& weights, const Model& model, const std::string& file,
                      const ImportOptions& options) {
  Sources sources(model.parameters.size());
  for (const PublishedTensor& published : weights.tensors()) {
    const StoredTensor& tensor = *published.stored;
    const ParameterId id = find_published(model, tensor.name);
    if (!id.valid()) {
      if (is_mask(tensor.name)) continue;
      return bad(file, fmt::format("has a tensor {}, which {} has not", tensor.name, model.name));
    }
    const Parameter& parameter = model.parameter(id);
    if (tensor.shape != parameter.shape) {
      return bad(file, fmt::format("tensor {} is [{}], in {} it is [{}]", tensor.name,
                                   fmt::join(tensor.shape, ", "), model.name,
                                   fmt::join(parameter.shape, ", ")));
    }
    if (!is_weight_dtype(tensor.dtype)) {
      return bad(file, fmt::format("tensor {} is {}: convert it to F32, BF16 or F16", tensor.name,
                                   name_of(tensor.dtype)));
    }
    PublishedTensor& source = sources[id.index()];
    if (source.stored != nullptr) TESSERA_TRY(check_alike(weights, file, source, published, model));
    source = published;
  }
  for (std::size_t p = 0; p < sources.size(); ++p) {
    if (sources[p].stored != nullptr) continue;
    if (options.adapters && is_adapter(model.parameters[p])) continue;
    return bad(file,
               fmt::format("lacks the tensor {} of {}", model.parameters[p].name, model.name));
  }
  return sources;
}

Status read_floats(WeightFiles& weights, const std::string& file, const PublishedTensor& tensor,
                   Numel first, std::span<float> values) {
  const DType dtype = tensor.stored->dtype;
  const auto size = static_cast<std::size_t>(size_of(dtype).value);
  std::vector<std::byte> bytes(values.size() * size);
  TESSERA_TRY(weights.read(tensor, first, bytes));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load_number(bytes, dtype, i);
    if (std::isfinite(values[i])) continue;
    return Status(Code::corrupt,
                  fmt::format("{}: tensor {} has {} at place {}: it is damaged, or of a run that "
                              "has diverged",
                              file, tensor.stored->name, values[i],
                              first.value + static_cast<std::int64_t>(i)));
  }
  return {};
}

}  // namespace

Status import_weights(Engine& engine, const std::string& file, const ImportOptions& options) {
  TESSERA_ASSIGN(const EngineState state, EngineState::of(engine));
  TESSERA_TRY(state.expect_idle("import_weights"));
  const std::string what = "reading " + file;
  auto weights = WeightFiles::open(file);
  Status status = weights.status();
  Sources sources;
  if (weights.ok()) {
    auto matched = match(*weights, state.model(), file, options);
    status = matched.status();
    if (matched.ok()) sources = std::move(*matched);
  }
  TESSERA_TRY(state.agree(status, what));
  const Status written = state.write(
      nullptr, [&](Rank, ParameterId id, StateTensor, Numel first, std::span<float> values) {
        const PublishedTensor& source = sources[id.index()];
        if (source.stored != nullptr) return read_floats(*weights, file, source, first, values);
        TESSERA_ASSERT(options.adapters != nullptr, "only adapters may be missing in the files");
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = options.adapters(id, first + Numel{static_cast<std::int64_t>(i)});
        }
        return Status();
      });
  return state.agree(written, what);
}

Status export_weights(Engine& engine, const std::string& file, const ExportOptions& options) {
  TESSERA_ASSIGN(const EngineState state, EngineState::of(engine));
  TESSERA_TRY(state.expect_idle("export_weights"));
  const std::string what = "writing " + file;
  std::vector<CheckpointParameter> parameters;
  for (const Parameter& p : state.model().parameters) parameters.push_back({p.name, p.shape});
  Status status;
  std::optional<WeightsFile> out;
  if (state.is_local(0)) {
    auto created = WeightsFile::create(file, parameters, options.dtype);
    status = created.status();
    if (created.ok()) out.emplace(std::move(*created));
  }
  // All ranks know that the file could be made before they gather what goes into it.
  TESSERA_TRY(state.agree(status, what));
  TESSERA_TRY(read_parameters(
      engine, {.recipient = 0, .staging = options.staging}, [&](Rank, const StateRange& range) {
        const std::string& name = state.model().parameter(range.parameter).name;
        TESSERA_ASSERT(out.has_value() || !status.ok(),
                       "values come to the rank that has the file");
        if (status.ok()) status = out->write(name, range.first, range.values);
      }));
  if (status.ok() && out) status = out->finish();
  return state.agree(status, what);
}

}  // namespace tessera
