// SPDX-License-Identifier: Apache-2.0
#include "tessera/op.h"

namespace tessera {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

Bytes bytes_of(const View& view) { return bytes_of(view.numel, view.dtype); }

Bytes bytes_of(const Copy& copy) {
  Bytes total{};
  for (const auto& piece : copy.pieces) total += bytes_of(piece.from) * piece.count;
  return total;
}

}  // namespace

std::optional<CopyRoute> route_between(Memory from, Memory to) {
  constexpr std::optional<CopyRoute> none;
  constexpr std::optional<CopyRoute> routes[memory_count][memory_count] = {
      {CopyRoute::on_device, CopyRoute::to_host, CopyRoute::device_to_nvme},
      {CopyRoute::to_device, CopyRoute::on_host, CopyRoute::to_nvme},
      {CopyRoute::nvme_to_device, CopyRoute::from_nvme, none}};
  return routes[static_cast<int>(from)][static_cast<int>(to)];
}

OpKind kind_of(const Op& op) {
  return std::visit(Overloaded{[](const AllGather&) { return OpKind::all_gather; },
                               [](const ReduceScatter&) { return OpKind::reduce_scatter; },
                               [](const AllReduce&) { return OpKind::all_reduce; },
                               [](const Reduce&) { return OpKind::reduce; },
                               [](const Broadcast&) { return OpKind::broadcast; },
                               [](const AllToAll&) { return OpKind::all_to_all; },
                               [](const Copy&) { return OpKind::copy; },
                               [](const Compute&) { return OpKind::compute; },
                               [](const Wait&) { return OpKind::wait; },
                               [](const Mark&) { return OpKind::mark; }},
                    op.what);
}

CommunicatorId communicator_of(const Op& op) {
  return std::visit(Overloaded{[](const Copy&) { return CommunicatorId{}; },
                               [](const Compute&) { return CommunicatorId{}; },
                               [](const Wait&) { return CommunicatorId{}; },
                               [](const Mark&) { return CommunicatorId{}; },
                               [](const auto& collective) { return collective.communicator; }},
                    op.what);
}

Bytes bytes_of(const Op& op) {
  return std::visit(
      Overloaded{[](const AllGather& o) { return bytes_of(o.output); },
                 [](const ReduceScatter& o) { return bytes_of(o.input); },
                 [](const AllReduce& o) { return bytes_of(o.input); },
                 [](const Reduce& o) { return bytes_of(o.input); },
                 [](const Broadcast& o) { return bytes_of(o.data); },
                 [](const AllToAll& o) { return bytes_of(o.input); },
                 [](const Copy& o) { return bytes_of(o); },
                 [](const Compute& o) {
                   return Bytes{static_cast<std::int64_t>(o.cost.elementwise_bytes)};
                 },
                 [](const Wait&) { return Bytes{}; }, [](const Mark&) { return Bytes{}; }},
      op.what);
}

Kernels& BodyContext::kernels() const { return host_kernels(); }

}  // namespace tessera
