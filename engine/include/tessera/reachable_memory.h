// SPDX-License-Identifier: Apache-2.0
// Copies and computations in memory that the host can reach: for runtimes of CPUs.
//
// The idea: backends differ in where a view lies, which is a function `bytes(view)` from a View to
// the span of it; the rest is the same for all.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tessera/number_arrays.h"
#include "tessera/op.h"
#include "tessera/status.h"

namespace tessera {

/// A body's views, wherever they lie, and the kernels for there.
class SpanContext final : public BodyContext {
 public:
  SpanContext(Rank rank, std::vector<std::span<const std::byte>> reads,
              std::vector<std::span<std::byte>> writes, Kernels& kernels = host_kernels())
      : rank_(rank), reads_(std::move(reads)), writes_(std::move(writes)), kernels_(kernels) {}
  Rank rank() const override { return rank_; }
  std::span<const std::byte> read(std::size_t i) const override { return reads_.at(i); }
  std::span<std::byte> write(std::size_t i) const override { return writes_.at(i); }
  Kernels& kernels() const override { return kernels_; }

 private:
  Rank rank_;
  std::vector<std::span<const std::byte>> reads_;
  std::vector<std::span<std::byte>> writes_;
  Kernels& kernels_;
};

/// All pieces of a copy that stays in memory.
template <class BytesOf>
void copy_in_memory(const Copy& copy, BytesOf&& bytes) {
  for (const CopyBlocks& piece : copy.pieces) {
    for (std::int64_t k = 0; k < piece.count; ++k) {
      View from = piece.from;
      View to = piece.to;
      from.first += piece.from_pitch * k;
      to.first += piece.to_pitch * k;
      const auto source = from.buffer.valid() ? bytes(from) : std::span<std::byte>{};
      copy_numbers(source, from.dtype, bytes(to), to.dtype);
    }
  }
}

/// Runs the body of `compute`. Fails: invalid_argument, if it asks for a view that it does not
/// have.
inline Status run_body(const Compute& compute, const BodyContext& context) {
  try {
    compute.body(context);
  } catch (const std::out_of_range& error) {
    return Status(Code::invalid_argument,
                  "a body on rank " + std::to_string(context.rank()) +
                      " asked for what is not there: it has " +
                      std::to_string(compute.reads.size()) + " views to read and " +
                      std::to_string(compute.writes.size()) + " to write (" + error.what() + ")");
  }
  return {};
}

/// Zeroes what is to be zero and runs the body, if there is one. Fails: as run_body.
template <class BytesOf>
Status compute_in_memory(const Compute& compute, Rank rank, BytesOf&& bytes) {
  std::vector<std::span<const std::byte>> reads;
  std::vector<std::span<std::byte>> writes;
  reads.reserve(compute.reads.size());
  writes.reserve(compute.writes.size());
  for (const View& view : compute.reads) reads.push_back(bytes(view));
  for (const View& view : compute.writes) writes.push_back(bytes(view));
  for (std::size_t k : compute.zeroed) std::fill(writes[k].begin(), writes[k].end(), std::byte{0});
  if (!compute.body) return {};
  return run_body(compute, SpanContext(rank, std::move(reads), std::move(writes)));
}

}  // namespace tessera
