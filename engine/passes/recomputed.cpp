// SPDX-License-Identifier: Apache-2.0
#include "engine/passes/recomputed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/tree_builder.h"

namespace tessera {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

// Experts gather their inputs, so that theirs are no matrices of one input.
bool is_dense(const LinearShape& linear) { return linear.count == 1 && linear.rows_per_token == 1; }

// Whether the matrix behind the first ones maps `width` back to what they multiply.
bool ends(const std::vector<LinearShape>& linears, std::size_t firsts, std::int64_t width) {
  if (linears.size() <= firsts || linears[firsts].in != width) return false;
  const auto end = linears.begin() + static_cast<std::ptrdiff_t>(firsts) + 1;
  const std::int64_t in = linears.front().in;
  return linears[firsts].out == in && std::all_of(linears.begin(), end, is_dense) &&
         std::all_of(linears.begin(), end - 1, [&](const auto& first) { return first.in == in; });
}

// In the order in which they are used: Phi-3's class has that of attention's output first.
std::vector<LinearShape> by_use(const ModuleCost& cost) {
  std::vector<LinearShape> linears = cost.linears;
  const AttentionHeads& heads = cost.attention;
  const std::int64_t all = (heads.heads + 2 * heads.key_value_heads) * heads.head_dim;
  if (heads.heads > 0 && linears.size() == 2 && linears[0].out != all && linears[1].out == all) {
    std::swap(linears[0], linears[1]);
  }
  return linears;
}

void add_passes(ModuleCost& again, double elements, const KeptActivations& kept) {
  again.elementwise_bytes.linear += element * elements * kept.elementwise;
  ++again.kernels;
}

void repeat(Recomputed& out, const LinearShape& linear) {
  out.bytes += element * number(linear.out);
  out.again.matmul_flops.linear += 2 * number(linear.in) * number(linear.out);
  out.again.linears.push_back(linear);
  ++out.again.kernels;
}

// Its output is read, and cast again where it was kept in 8 bit.
void repeat_norm(Recomputed& out, const LinearShape& reads, const KeptActivations& kept) {
  if (!kept.norms) return;
  out.bytes += kept.input_bytes * number(reads.in);
  add_passes(out.again, (reads.fp8 ? 3.5 : 2) * number(reads.in), kept);
}

void repeat_function(Recomputed& out, const BlockPart& part, std::int64_t inner,
                     const KeptActivations& kept) {
  const bool gate = part.gated && kept.gates;
  out.bytes += (kept.input_bytes + (gate ? element : 0)) * number(inner);
  add_passes(out.again, (part.gated ? 3 : 2) * number(inner), kept);
}

}  // namespace

std::string to_text(const Recompute& what) {
  std::vector<std::string> words;
  const auto add = [&](bool has, const char* word) {
    if (has) words.emplace_back(word);
  };
  add(what.norm, "norm");
  add(what.activation, "activation");
  add(what.ffn, "ffn");
  add(what.qkv, "qkv");
  add(what.attention, "attention");
  return fmt::format("{}", fmt::join(words, "+"));
}

BlockPart block_part(const ModuleCost& cost) {
  const std::vector<LinearShape> linears = by_use(cost);
  if (linears.empty() || cost.logits > 0) return {};
  const AttentionHeads& heads = cost.attention;
  if (heads.heads > 0) {
    const std::int64_t width = heads.heads * heads.head_dim;
    std::int64_t left = width + 2 * heads.key_value_heads * heads.head_dim;
    std::size_t firsts = 0;
    while (firsts < linears.size() && left > 0) left -= linears[firsts++].out;
    if (left != 0 || !ends(linears, firsts, width)) return {};
    return {BlockPart::Kind::attention, firsts, false};
  }
  if (linears.size() > 2 && linears[0].out == linears[1].out && ends(linears, 2, linears[0].out)) {
    return {BlockPart::Kind::mlp, 2, true};
  }
  if (linears.size() > 1 && linears[0].out == 2 * linears[1].in &&
      ends(linears, 1, linears[1].in)) {
    return {BlockPart::Kind::mlp, 1, true};  // gate and up are rows of one matrix, as in Phi-3
  }
  if (ends(linears, 1, linears[0].out)) return {BlockPart::Kind::mlp, 1, false};
  return {};
}

Recomputed recomputed(const ModuleCost& cost, const Recompute& what, const KeptActivations& kept) {
  Recomputed out;
  const BlockPart part = block_part(cost);
  if (part.kind == BlockPart::Kind::other) return out;
  const std::vector<LinearShape> linears = by_use(cost);
  const bool attention = part.kind == BlockPart::Kind::attention;
  const bool all = attention ? what.attention : what.ffn;
  if (all || what.norm) repeat_norm(out, linears.front(), kept);
  if (all || (attention && what.qkv)) {
    for (std::size_t k = 0; k < part.firsts; ++k) repeat(out, linears[k]);
    // Queries and keys are rotated.
    if (attention) add_passes(out.again, 2 * number(linears.front().out), kept);
  }
  const std::int64_t inner = linears[part.firsts].in;
  if (!attention && (all || what.activation)) repeat_function(out, part, inner, kept);
  if (attention && all) {
    out.bytes += element * number(inner);  // attention's own backward reads it in 16 bit
    out.again.attention_flops = cost.attention_flops;
    out.again.attention = cost.attention;
    ++out.again.kernels;
  }
  out.bytes = std::min(out.bytes, cost.activation_bytes.linear);
  return out;
}

double unneeded_inputs(const ModuleCost& cost, const std::vector<bool>& trained,
                       const KeptActivations& kept) {
  const BlockPart part = block_part(cost);
  if (part.kind == BlockPart::Kind::other || trained.size() != cost.linears.size()) return 0;
  const auto unneeded = [&](std::int64_t width) {
    for (std::size_t k = 0; k < trained.size(); ++k) {
      if (trained[k] && cost.linears[k].in == width) return 0.0;
    }
    return kept.input_bytes * number(width);
  };
  double bytes = kept.norms ? unneeded(by_use(cost).front().in) : 0;
  if (part.kind == BlockPart::Kind::mlp) bytes += unneeded(cost.linears[part.firsts].in);
  return std::min(bytes, cost.activation_bytes.linear);
}

Status check_recompute(const Model& model, const Recompute& what) {
  bool attention = false, mlp = false;
  for (const ModuleId id : model.forward) {
    const BlockPart::Kind kind = block_part(model.module(id).cost).kind;
    attention |= kind == BlockPart::Kind::attention;
    mlp |= kind == BlockPart::Kind::mlp;
  }
  const bool missing_attention = (what.qkv || what.attention) && !attention;
  const bool missing_mlp = (what.ffn || what.activation) && !mlp;
  if (!missing_attention && !missing_mlp && (!what.norm || attention || mlp)) return {};
  return Status(Code::not_supported,
                fmt::format("recompute {}: {} has no {} whose matrices are known as a whole: "
                            "choose --checkpointing full",
                            to_text(what), model.name,
                            missing_mlp         ? "MLP"
                            : missing_attention ? "attention"
                                                : "block"));
}

}  // namespace tessera
