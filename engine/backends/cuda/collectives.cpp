// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/collectives.h"

#include <array>

#include "engine/backends/cuda/calls.h"
#include "engine/numbers/number.h"

namespace tessera {
namespace {

NcclType type_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return NcclType::float32;
    case DType::float16: return NcclType::float16;
    case DType::bfloat16: return NcclType::bfloat16;
    case DType::int32: return NcclType::int32;
    case DType::int64: return NcclType::int64;
    case DType::float64: return NcclType::float64;
    default: return NcclType::uint8;
  }
}

std::size_t count(const NcclCall& call) { return static_cast<std::size_t>(call.numel.value); }

}  // namespace

Status Collectives::finish(const NcclCall& call, int code, const char* name) {
  return communicators_.finish_call(communicators_.at(call.communicator), code, name);
}

Status Collectives::finish(const NcclCall& call, const Operator& op, int code, const char* name) {
  Status done = finish(call, code, name);
  if (!op.own) return done;
  const NcclComm comm = communicators_.at(call.communicator);
  const int unmade = api_.red_op_destroy(op.op, comm);
  return done.ok() ? nccl_status(api_, comm, unmade, "ncclRedOpDestroy") : done;
}

Result<Collectives::Operator> Collectives::make(const NcclCall& call, Reduction reduction,
                                                float factor) {
  if (factor == 1.0F) {
    const bool average = reduction == Reduction::average;
    return Operator{average                       ? NcclOp::average
                    : reduction == Reduction::max ? NcclOp::max
                                                  : NcclOp::sum};
  }
  if (reduction == Reduction::max) {
    return Status(Code::not_supported, "NCCL cannot scale the input of a maximum");
  }
  if (reduction == Reduction::average) factor /= static_cast<float>(call.members);
  std::array<std::byte, sizeof(float)> number{};
  store_number(number, call.dtype, 0, factor);
  const NcclComm comm = communicators_.at(call.communicator);
  Operator made{NcclOp::sum, true};
  const int code =
      api_.red_op_create_pre_mul_sum(&made.op, number.data(), type_of(call.dtype), comm);
  TESSERA_TRY(nccl_status(api_, comm, code, "ncclRedOpCreatePreMulSum"));
  return made;
}

Status Collectives::all_gather(const NcclCall& call) {
  return finish(call,
                api_.all_gather(call.input, call.output, count(call), type_of(call.dtype),
                                communicators_.at(call.communicator), call.stream),
                "ncclAllGather");
}

Status Collectives::reduce_scatter(const NcclCall& call, Reduction reduction, float factor) {
  TESSERA_ASSIGN(const Operator op, make(call, reduction, factor));
  return finish(call, op,
                api_.reduce_scatter(call.input, call.output, count(call), type_of(call.dtype),
                                    op.op, communicators_.at(call.communicator), call.stream),
                "ncclReduceScatter");
}

Status Collectives::all_reduce(const NcclCall& call, Reduction reduction, float factor) {
  TESSERA_ASSIGN(const Operator op, make(call, reduction, factor));
  return finish(call, op,
                api_.all_reduce(call.input, call.output, count(call), type_of(call.dtype), op.op,
                                communicators_.at(call.communicator), call.stream),
                "ncclAllReduce");
}

Status Collectives::reduce(const NcclCall& call, Reduction reduction, Index root) {
  TESSERA_ASSIGN(const Operator op, make(call, reduction, 1));
  return finish(call, op,
                api_.reduce(call.input, call.output, count(call), type_of(call.dtype), op.op, root,
                            communicators_.at(call.communicator), call.stream),
                "ncclReduce");
}

Status Collectives::broadcast(const NcclCall& call, Index root) {
  return finish(call,
                api_.broadcast(call.input, call.output, count(call), type_of(call.dtype), root,
                               communicators_.at(call.communicator), call.stream),
                "ncclBroadcast");
}

// Inside a group calls only take note; what they return is what was wrong with them.
Status Collectives::all_to_all(const NcclCall& call) {
  const NcclComm comm = communicators_.at(call.communicator);
  const std::size_t part = count(call) / static_cast<std::size_t>(call.members);
  const std::size_t bytes = part * static_cast<std::size_t>(size_of(call.dtype).value);
  TESSERA_TRY(nccl_status(api_, comm, api_.group_start(), "ncclGroupStart"));
  Status noted;
  for (Index i = 0; i < call.members && noted.ok(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * bytes;
    noted = nccl_status(api_, comm,
                        api_.send(call.input + at, part, type_of(call.dtype), i, comm, call.stream),
                        "ncclSend");
    if (!noted.ok()) break;
    noted = nccl_status(
        api_, comm, api_.recv(call.output + at, part, type_of(call.dtype), i, comm, call.stream),
        "ncclRecv");
  }
  const int ended = api_.group_end();
  TESSERA_TRY(noted);
  return finish(call, ended, "ncclGroupEnd");
}

}  // namespace tessera
