// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/numbers/number.h"
#include "engine/text/set_aside.h"
#include "engine/text/text_file.h"
#include "tessera/lora.h"
#include "tessera/safetensors.h"

namespace tessera {
namespace {

constexpr std::string_view down_end = ".lora_A.weight";
constexpr std::string_view up_end = ".lora_B.weight";

bool is_adapters(const StoredTensor& tensor) {
  return tensor.name.ends_with(down_end) || tensor.name.ends_with(up_end);
}

// "model.layers.0.self_attn.q_proj" of either matrix of its adapter.
std::string target_of(const StoredTensor& tensor) {
  return tensor.name.substr(0, tensor.name.size() - down_end.size());
}

Result<std::vector<float>> read_all(SafetensorsFile& file, const StoredTensor& tensor) {
  const auto numel = static_cast<std::size_t>(tensor.numel().value);
  std::vector<std::byte> bytes(numel * static_cast<std::size_t>(size_of(tensor.dtype).value));
  TESSERA_TRY(file.read(tensor, Numel{0}, bytes));
  std::vector<float> values(numel);
  for (std::size_t i = 0; i < numel; ++i) values[i] = load_number(bytes, tensor.dtype, i);
  return values;
}

Status write_all(SafetensorsWriter& file, const StoredTensor& tensor,
                 std::span<const float> values) {
  if (tensor.dtype == DType::float32) {
    return file.write(tensor.name, Numel{0}, std::as_bytes(values));
  }
  std::vector<std::byte> bytes(values.size() *
                               static_cast<std::size_t>(size_of(tensor.dtype).value));
  for (std::size_t i = 0; i < values.size(); ++i) store_number(bytes, tensor.dtype, i, values[i]);
  return file.write(tensor.name, Numel{0}, bytes);
}

StoredTensor stored_as(const StoredTensor& tensor, std::string name, DType dtype) {
  return {.name = std::move(name), .dtype = dtype, .shape = tensor.shape};
}

// The two matrices of a weight's adapter; none: it has none.
struct AdapterPair {
  const StoredTensor* down = nullptr;
  const StoredTensor* up = nullptr;
};

Result<AdapterPair> pair_of(const SafetensorsFile& file, const std::string& path,
                            const StoredTensor& weight) {
  constexpr std::string_view end = ".weight";
  if (!weight.name.ends_with(end)) return AdapterPair{};
  const std::string target = weight.name.substr(0, weight.name.size() - end.size());
  const AdapterPair pair{file.find(target + std::string(down_end)),
                         file.find(target + std::string(up_end))};
  if ((pair.down == nullptr) == (pair.up == nullptr)) return pair;
  return Status(Code::corrupt, fmt::format("{}: has half of the adapter of {}", path, target));
}

// Shapes do not tell where matrices are square.
bool lies_in_out(const Model& model, const std::string& target) {
  const ModuleId id = model.find_module(target);
  return id.valid() && model.module(id).class_name == "Conv1D";
}

// weight += scale * B A, or its transpose where the weight is [in, out].
Status add_product(SafetensorsFile& file, const std::string& path, const AdapterPair& pair,
                   const StoredTensor& weight, bool in_out, float scale,
                   std::vector<float>& values) {
  const std::int64_t rank = pair.down->shape[0];
  const std::int64_t in = pair.down->shape[1];
  const std::int64_t out = pair.up->shape[0];
  const auto wanted = in_out ? std::vector{in, out} : std::vector{out, in};
  if (pair.up->shape[1] != rank || weight.shape != wanted) {
    return Status(Code::corrupt,
                  fmt::format("{}: the adapter of {} has other shapes than it", path, weight.name));
  }
  TESSERA_ASSIGN(const std::vector<float> a, read_all(file, *pair.down));
  TESSERA_ASSIGN(const std::vector<float> b, read_all(file, *pair.up));
  std::vector<float> row(static_cast<std::size_t>(in));
  for (std::int64_t o = 0; o < out; ++o) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (std::int64_t r = 0; r < rank; ++r) {
      const float factor = b[static_cast<std::size_t>(o * rank + r)];
      for (std::int64_t i = 0; i < in; ++i) {
        row[static_cast<std::size_t>(i)] += factor * a[static_cast<std::size_t>(r * in + i)];
      }
    }
    for (std::int64_t i = 0; i < in; ++i) {
      values[static_cast<std::size_t>(in_out ? i * out + o : o * in + i)] +=
          scale * row[static_cast<std::size_t>(i)];
    }
  }
  return {};
}

std::string adapter_config(const LoraOptions& options, const std::set<std::string>& modules,
                           bool transposed) {
  nlohmann::ordered_json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = nullptr;
  json["r"] = options.rank;
  json["lora_alpha"] = options.alpha;
  json["lora_dropout"] = 0.0;
  json["bias"] = "none";
  json["fan_in_fan_out"] = transposed;
  json["target_modules"] = modules;
  json["inference_mode"] = true;
  return json.dump(2) + "\n";
}

}  // namespace

Status merge_lora(const std::string& weights, const Model& model, const LoraOptions& options,
                  const std::string& merged, DType dtype) {
  TESSERA_ASSIGN(SafetensorsFile file, SafetensorsFile::open(weights));
  std::vector<StoredTensor> kept;
  for (const StoredTensor& tensor : file.tensors()) {
    if (!is_adapters(tensor)) kept.push_back(stored_as(tensor, tensor.name, dtype));
  }
  TESSERA_ASSIGN(SafetensorsWriter out,
                 SafetensorsWriter::create(merged, kept, {{"format", "pt"}}));
  for (const StoredTensor& tensor : file.tensors()) {
    if (is_adapters(tensor)) continue;
    TESSERA_ASSIGN(std::vector<float> values, read_all(file, tensor));
    TESSERA_ASSIGN(const AdapterPair pair, pair_of(file, weights, tensor));
    if (pair.down != nullptr) {
      const auto scale = static_cast<float>(options.scale());
      const bool in_out = lies_in_out(model, target_of(*pair.down));
      TESSERA_TRY(add_product(file, weights, pair, tensor, in_out, scale, values));
    }
    TESSERA_TRY(write_all(out, stored_as(tensor, tensor.name, dtype), values));
  }
  return out.finish();
}

Status export_lora(const std::string& weights, const Model& model, const LoraOptions& options,
                   const std::string& folder) {
  TESSERA_ASSIGN(SafetensorsFile file, SafetensorsFile::open(weights));
  // GPT-2's published weights lack the name of the model within that with a head.
  const bool gpt2 = model.modules[0].class_name == "GPT2LMHeadModel";
  const std::string inner = gpt2 ? "transformer." : "";
  const auto published = [&](const StoredTensor& tensor) {
    return stored_as(tensor, "base_model.model." + inner + tensor.name, DType::float32);
  };
  std::vector<StoredTensor> own;
  std::set<std::string> modules;
  bool transposed = false;
  for (const StoredTensor& tensor : file.tensors()) {
    if (!is_adapters(tensor)) continue;
    own.push_back(published(tensor));
    const std::string target = target_of(tensor);
    modules.insert(inner + target);
    transposed |= lies_in_out(model, target);
  }
  if (own.empty()) {
    return Status(Code::invalid_argument, fmt::format("{}: has no adapters", weights));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string config = folder + "/adapter_config.json";
  const std::string text = adapter_config(options, modules, transposed);
  // Weights of one run beside the rank and scale of another would be read without a word.
  const auto before = text_of_file(config);
  std::optional<SetAside> aside;
  if (before.ok() && *before != text) aside.emplace(config);
  TESSERA_ASSIGN(
      SafetensorsWriter out,
      SafetensorsWriter::create(folder + "/adapter_model.safetensors", own, {{"format", "pt"}}));
  for (const StoredTensor& tensor : file.tensors()) {
    if (!is_adapters(tensor)) continue;
    TESSERA_ASSIGN(const std::vector<float> values, read_all(file, tensor));
    TESSERA_TRY(write_all(out, published(tensor), values));
  }
  TESSERA_TRY(out.finish());
  if (aside) aside->replaced();
  return write_text_file(config, text);
}

}  // namespace tessera
