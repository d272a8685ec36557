// SPDX-License-Identifier: Apache-2.0
#include "engine/model/stated_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/model/part_costs.h"
#include "engine/model/tree_builder.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kernels_max = 1'000'000;

// A number, or [constant, linear, quadratic] in the sequence length.
Polynomial polynomial(JsonReader& reader, const char* key) {
  if (!reader.has(key)) return {};
  const Json& value = reader.json()[key];
  std::vector<double> terms;
  for (const Json& term : value.is_array() ? value : Json::array({value})) {
    if (term.is_number() && term.get<double>() >= 0) terms.push_back(term.get<double>());
  }
  if (terms.empty() || terms.size() > 3 || (value.is_array() && terms.size() != value.size())) {
    reader.fail(key, "must be a number that is not negative, or [constant, linear, quadratic]");
    return {};
  }
  terms.resize(3);
  return {terms[0], terms[1], terms[2]};
}

// A small reader's first error becomes that of the reader around it.
void pass_on(const JsonReader& inner, JsonReader& outer, const std::string& where) {
  if (inner.status().ok()) return;
  const std::string text = inner.status().message();
  outer.fail(where, text.size() > 2 ? text.substr(2) : text);  // without its own empty place
}

LinearShape linear_shape(JsonReader& reader, const Json& json, const std::string& where) {
  JsonReader linear(json, "");
  linear.only({"in", "out", "rows_per_token", "count"});
  LinearShape shape{.in = linear.integer("in", 1), .out = linear.integer("out", 1)};
  shape.rows_per_token = linear.positive("rows_per_token", 1);
  shape.count = linear.integer("count", 1, 1);
  pass_on(linear, reader, where);
  return shape;
}

void linears(JsonReader& reader, ModuleCost& cost) {
  const Json& list = reader.json()["linears"];
  if (!list.is_array() || list.empty()) {
    return reader.fail("linears", R"(must be a list of matmuls: [{"in": 8, "out": 4}])");
  }
  double flops = 0;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const LinearShape shape = linear_shape(reader, list[k], fmt::format("linears[{}]", k));
    flops += linear_cost(shape).matmul_flops.linear * shape.rows_per_token *
             static_cast<double>(shape.count);
    cost.linears.push_back(shape);
  }
  if (!reader.has("flops_per_sample")) cost.matmul_flops = per_token(flops);
  const Polynomial& said = cost.matmul_flops;
  const bool same = said.constant == 0 && said.quadratic == 0 &&
                    std::abs(said.linear - flops) <= 0.01 * std::max(said.linear, flops);
  if (same) return;
  reader.fail("linears",
              fmt::format("take {:.6g} FLOPs per token, but flops_per_sample says otherwise: leave "
                          "one of both out",
                          flops));
}

void attention(JsonReader& reader, ModuleCost& cost) {
  JsonReader heads(reader.json()["attention"], "");
  heads.only({"heads", "key_value_heads", "head_dim", "window", "chunked", "causal"});
  AttentionHeads& out = cost.attention;
  out.heads = heads.integer("heads", 1);
  out.key_value_heads = heads.integer("key_value_heads", 1, out.heads);
  out.head_dim = heads.integer("head_dim", 1);
  out.window = heads.integer("window", 0, 0);
  out.chunked = heads.boolean("chunked", false);
  out.causal = heads.boolean("causal", true);
  if (heads.status().ok() && out.heads % out.key_value_heads != 0) {
    heads.fail("heads", fmt::format("{} is not a multiple of key_value_heads {}", out.heads,
                                    out.key_value_heads));
  }
  pass_on(heads, reader, "attention");
  if (reader.has("attention_flops_per_sample")) return;
  const double width = static_cast<double>(out.heads) * static_cast<double>(out.head_dim);
  cost.attention_flops = {0, 0, 4 * width};
}

}  // namespace

const std::vector<std::string_view>& cost_keys() {
  static const std::vector<std::string_view> keys = {"flops_per_sample",
                                                     "attention_flops_per_sample",
                                                     "activation_bytes_per_sample",
                                                     "elementwise_bytes_per_sample",
                                                     "checkpoint_bytes_per_sample",
                                                     "kernels",
                                                     "linears",
                                                     "attention",
                                                     "logits"};
  return keys;
}

Result<StatedCosts> read_costs(JsonReader& reader) {
  StatedCosts out;
  ModuleCost& cost = out.cost;
  cost.matmul_flops = polynomial(reader, "flops_per_sample");
  cost.attention_flops = polynomial(reader, "attention_flops_per_sample");
  cost.activation_bytes = polynomial(reader, "activation_bytes_per_sample");
  cost.elementwise_bytes = polynomial(reader, "elementwise_bytes_per_sample");
  out.checkpoint_bytes = polynomial(reader, "checkpoint_bytes_per_sample");
  const std::int64_t kernels = reader.integer("kernels", 0, 1);
  if (kernels > kernels_max) {
    reader.fail("kernels", fmt::format("must be at most {}, found {}", kernels_max, kernels));
  }
  cost.kernels = static_cast<std::int32_t>(std::min(kernels, kernels_max));
  cost.logits = static_cast<double>(reader.integer("logits", 0, 0));
  if (reader.has("linears")) linears(reader, cost);
  if (reader.has("attention")) attention(reader, cost);
  TESSERA_TRY(reader.status());
  out.flops = reader.has("flops_per_sample") || reader.has("linears") ||
              reader.has("attention_flops_per_sample") || reader.has("attention");
  out.activations = reader.has("activation_bytes_per_sample");
  out.elementwise = reader.has("elementwise_bytes_per_sample");
  out.kernels = reader.has("kernels");
  out.checkpoint = reader.has("checkpoint_bytes_per_sample");
  return out;
}

}  // namespace tessera
