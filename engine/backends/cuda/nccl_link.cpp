// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/nccl_link.h"

#include <algorithm>
#include <cstring>

#include "engine/backends/cuda/calls.h"

namespace tessera {
namespace {

constexpr std::size_t pieces_bytes = std::size_t{1} << 20;  // of all ranks together
constexpr std::size_t piece_bytes_min = 4096;

}  // namespace

NcclLink::~NcclLink() {
  if (arrived_ != nullptr) events_.give_back(arrived_);
}

Status NcclLink::open(int device) {
  const auto ranks = static_cast<std::size_t>(peers_.ranks());
  piece_max_ = std::max(pieces_bytes / ranks / piece_bytes_min * piece_bytes_min, piece_bytes_min);
  const Bytes bytes{static_cast<std::int64_t>(piece_max_ * (ranks + 1))};
  TESSERA_TRY(device_.reserve(device, bytes));
  TESSERA_TRY(device_.grow(bytes));
  return host_.allocate(bytes);
}

void NcclLink::abandon() {
  device_.abandon();
  host_.abandon();
}

Result<TraceLink::Request> NcclLink::broadcast(std::span<std::byte> data) {
  return start({.own = data, .all = {}, .data = data});
}

Result<TraceLink::Request> NcclLink::gather(std::span<const std::byte> own,
                                            std::span<std::byte> all) {
  return start({.own = own, .all = all, .data = {}});
}

// One at a time, so a request needs no name.
Result<TraceLink::Request> NcclLink::start(Message message) {
  message_ = message;
  if (!message_.own.empty()) TESSERA_TRY(send());
  return Request{0};
}

Status NcclLink::send() {
  Message& m = message_;
  m.piece = std::min(m.own.size() - m.sent, piece_max_);
  const auto piece = static_cast<std::int64_t>(m.piece);
  const Bytes all{piece * peers_.ranks()};
  const Bytes answers_at{static_cast<std::int64_t>(piece_max_)};
  std::memcpy(host_.base(), m.own.data() + m.sent, m.piece);
  TESSERA_TRY(cuda_status(cuda_,
                          cuda_.memcpy_async(device_.at(Bytes{0}), host_.base(), m.piece, stream_),
                          "cudaMemcpyAsync"));
  const int code = nccl_.all_gather(device_.at(Bytes{0}), device_.at(answers_at), m.piece,
                                    NcclType::uint8, communicators_.world(), stream_);
  TESSERA_TRY(communicators_.finish_call(communicators_.world(), code, "ncclAllGather"));
  TESSERA_TRY(
      cuda_status(cuda_,
                  cuda_.memcpy_async(host_.base() + answers_at.value, device_.at(answers_at),
                                     static_cast<std::size_t>(all.value), stream_),
                  "cudaMemcpyAsync"));
  TESSERA_ASSIGN(arrived_, events_.record(stream_));
  return {};
}

void NcclLink::take() {
  Message& m = message_;
  const std::byte* const answers = host_.base() + piece_max_;
  if (!m.data.empty()) std::memcpy(m.data.data() + m.sent, answers, m.piece);
  for (std::size_t at = 0; at < m.all.size(); at += m.own.size()) {
    std::memcpy(m.all.data() + at + m.sent, answers + at / m.own.size() * m.piece, m.piece);
  }
  m.sent += m.piece;
}

Result<bool> NcclLink::test(Request) {
  if (arrived_ == nullptr) return true;
  TESSERA_ASSIGN(const bool arrived, has_happened(cuda_, arrived_));
  if (!arrived) return false;
  events_.give_back(std::exchange(arrived_, nullptr));
  take();
  if (message_.sent == message_.own.size()) return true;
  TESSERA_TRY(send());
  return false;
}

}  // namespace tessera
