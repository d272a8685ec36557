// SPDX-License-Identifier: Apache-2.0
// The order in which operations are enqueued. The enqueued work itself is in cuda_ops.cpp, the
// places of buffers are in cuda_buffers.cpp.
#include "engine/backends/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/backends/cuda/calls.h"
#include "engine/numbers/number.h"
#include "engine/runtime/op_checks.h"

namespace tessera {
namespace {

constexpr Bytes number_slot{8};  // bytes of `read` per rank: the widest dtype
constexpr Bytes answers_at{256};
constexpr Bytes workspace_bytes{norm_workspace_bytes};
constexpr int entries_min = 4;  // of an operation: events around it, its work, the record behind it

bool waited_for(OpKind kind) { return kind != OpKind::compute; }

}  // namespace

CudaBackend::CudaBackend(const CudaModule& module, std::unique_ptr<CudaPeers> peers,
                         const CudaOptions& options)
    : ProcessRuntime(RankSet::all(peers->ranks()), RankSet::single(peers->rank())),
      module_(module),
      peers_(std::move(peers)),
      options_(options),
      rank_(peers_->rank()),
      patience_(*peers_, options_),
      device_(module_.cuda),
      scratch_(module_.cuda),
      pinned_(module_.cuda),
      answers_(module_.cuda),
      staging_(module_.cuda),
      communicators_(module_.nccl, *peers_, patience_, wants_windows(options, module.nccl)),
      collectives_(module_.nccl, communicators_),
      windows_(module_.nccl, communicators_),
      events_(module_.cuda),
      mailbox_(module_.cuda, events_, [this] { return drain_all(); }),
      graphs_(module_.cuda),
      swapped_(
          options.aio, [this] { return make_io(); }, options.clock),
      file_copies_(module_.cuda, module_.kernels, swapped_, rank_),
      control_(module_.cuda, events_) {}

// Members are destroyed in the opposite order of their declaration: streams, events, communicators,
// memory. Memory of work that cannot be stopped is leaked: unmapping memory that a kernel uses
// would break the device for all processes.
CudaBackend::~CudaBackend() {
  module_.set_before_loads({});
  if (finished_) return;
  if (trace_ && failure_.ok()) give_up(Status(Code::cancelled, "it ended its run too early"));
  communicators_.abort();
  patience_.stop_listening();
  give_up_files();
  const bool drained = drain_all().ok();
  // A drive that has not answered until now would not answer a destructor either.
  if (!swapped_.abandon_moving() && drained) return;
  device_.abandon();
  scratch_.abandon();
  for (PinnedMemory* memory : {&pinned_, &answers_, &staging_}) memory->abandon();
  mailbox_.abandon();
  file_copies_.abandon();
  if (trace_link_) trace_link_->abandon();
}

// Workspaces of kernels, one for each stream, lie behind the answers of `read`.
Bytes CudaBackend::workspaces_at() const {
  const Bytes answers = number_slot * peers_->ranks();
  return Bytes{(answers_at + answers + workspace_bytes).value / workspace_bytes.value *
               workspace_bytes.value};
}

void* CudaBackend::workspace(const Lane& lane) const {
  std::int64_t place = 0;
  while (lanes_[static_cast<std::size_t>(place)].get() != &lane) ++place;
  return scratch_.at(workspaces_at() + workspace_bytes * place);
}

Status CudaBackend::setup() {
  const auto enter = [this]() -> Status {
    TESSERA_TRY(check_windows(options_));
    const CudaApi& cuda = module_.cuda;
    int devices = 0;
    TESSERA_TRY(cuda_status(cuda, cuda.get_device_count(&devices), "cudaGetDeviceCount"));
    const Rank local = options_.local_rank >= 0 ? options_.local_rank : rank_;
    const int device = options_.device >= 0 ? options_.device : local % std::max(devices, 1);
    TESSERA_TRY(cuda_status(cuda, cuda.set_device(device), "cudaSetDevice"));
    const MathOptions wanted{options_.tf32, options_.hopper_attention, options_.fp8};
    TESSERA_TRY(check_device(module_, device, wanted));
    device_number_ = device;
    device_is_set_ = std::this_thread::get_id();
    if (options_.aio.use_gds) {
      TESSERA_ASSIGN(cufile_, module_.start_cufile());
    }
    device_name_ = name_of_device(cuda, device);
    const Bytes answers = number_slot * peers_->ranks();
    const Bytes scratch = workspaces_at() + workspace_bytes * stream_count_max;
    TESSERA_TRY(scratch_.reserve(device, scratch));
    TESSERA_TRY(scratch_.grow(scratch));
    TESSERA_TRY(answers_.allocate(answers));
    TESSERA_TRY(mailbox_.open());
    TESSERA_TRY(control_.open(0));
    math_ = module_.make_math(wanted);
    if (math_ == nullptr) {
      return Status(Code::not_supported, "cuBLASLt does not start: check the CUDA toolkit");
    }
    TESSERA_TRY(communicators_.open(/*id_from_environment=*/!options_.comm_id.empty()));
    TESSERA_TRY(nccl_status(module_.nccl, communicators_.world(),
                            module_.nccl.get_version(&nccl_version_), "ncclGetVersion"));
    TESSERA_TRY(open_memory(wants_windows(options_, module_.nccl)));
    return start_trace(device);
  };
  return noted(enter());
}

// CUDA's current device is each thread's own, and a caller may go on in another thread.
Status CudaBackend::usable() {
  TESSERA_TRY(failure_);
  const auto wait = [](void* self) { return static_cast<CudaBackend*>(self)->settle(); };
  module_.set_before_loads({wait, this});
  const std::thread::id here = std::this_thread::get_id();
  if (here == device_is_set_) return {};
  device_is_set_ = here;
  return noted(cuda_status(module_.cuda, module_.cuda.set_device(device_number_), "cudaSetDevice"));
}

void CudaBackend::give_up_files() {
  file_service_.reset();
  file_copies_.give_up();
}

// The first error ends the run of all ranks: NCCL's kernels are aborted and gates are opened, so
// that streams can drain, and the others are notified.
Status CudaBackend::noted(Status status) {
  if (status.ok() || !failure_.ok()) return status;
  failure_ = status;
  if (trace_) {
    times_->collect_last();
    trace_->fail(status);
  }
  communicators_.abort();
  give_up_files();
  peers_->abort(status);
  return status;
}

Status CudaBackend::stream_created(StreamId id, const Stream& stream) {
  if (trace_) trace_->add_stream(id, stream.name, stream.role);
  lanes_.push_back(std::make_unique<Lane>(module_.cuda, events_));
  TESSERA_TRY(usable());
  const bool first = stream.role == StreamRole::communication;
  return noted(lanes_.back()->open(first ? -1 : 0));
}

Status CudaBackend::communicator_created(CommunicatorId id, const Communicator& communicator) {
  if (trace_) trace_->add_communicator(id, communicator.name, communicator.groups);
  TESSERA_TRY(usable());
  return noted(communicators_.split(id, communicator.groups, communicator.name));
}

Status CudaBackend::execute(const Op& op, EventId event) {
  TESSERA_TRY(usable());
  TESSERA_TRY(noted(enter_step(op.cause.step)));
  const bool here = op.where.contains(rank_);
  TESSERA_TRY(noted(owners_.add(here ? op.stream : StreamId{})));
  if (here) return noted(enqueue(op, event));
  if (trace_) trace_->submit(op, event, first_live_event(), here);
  return {};
}

Status CudaBackend::enqueue(const Op& op, EventId event) {
  TESSERA_TRY(file_copies_.advance().status());
  Lane& lane = *lanes_[op.stream.index()];
  TESSERA_TRY(settle_if_new(op));
  TESSERA_TRY(make_room(lane));
  entries_ = entries_min + static_cast<int>(op.after.size());
  TESSERA_TRY(order(lane, op));
  const bool idle = std::holds_alternative<Wait>(op.what) || std::holds_alternative<Mark>(op.what);
  if (trace_ && !idle) TESSERA_TRY(times_->begin(lane.stream()));
  const Status launched = launch(op, lane);
  TESSERA_TRY(unsettled_);
  TESSERA_TRY(launched);
  if (trace_) TESSERA_TRY(submit_to_trace(op, event, lane));
  const OpKind kind = kind_of(op);
  TESSERA_TRY(lane.submitted({kind, op.cause, event}, waited_for(kind) && !idle));
  return lane.ahead().enqueued(lane.stream(), entries_);
}

// The first launch of a kernel loads it, and that may wait inside of CUDA until the device has
// nothing to do ("Lazy Loading"): behind a collective whose peer is dead, for ever. So work that
// has not run yet waits for the device here, where somebody looks at the deadline.
Status CudaBackend::settle_if_new(const Op& op) {
  const auto* work = std::get_if<Compute>(&op.what);
  const bool launches = work != nullptr ? work->body != nullptr : kind_of(op) == OpKind::copy;
  if (!module_.works_alone || peers_->ranks() == 1 || !launches) return {};
  const Cause& why = op.cause;
  const Known one{why.unit.data(), why.module.data(), why.phase, why.reason, kind_of(op)};
  return known_.insert(one).second ? drain_all() : Status{};
}

// A kernel that loads late: a variant for another shape, in work that has run before.
int CudaBackend::settle() {
  constexpr int not_launched = 999;  // cudaErrorUnknown; `unsettled_` says more
  if (!module_.works_alone || peers_->ranks() == 1 || graphs_.recording()) return cuda_success;
  if (unsettled_.ok()) unsettled_ = drain_all();
  return unsettled_.ok() ? cuda_success : not_launched;
}

Status CudaBackend::make_room(Lane& lane) {
  TESSERA_ASSIGN(const bool room, lane.ahead().has_room());
  return room ? Status{} : until([&lane] { return lane.ahead().has_room(); });
}

Status CudaBackend::launch(const Op& op, Lane& lane) {
  if (const auto* work = std::get_if<Copy>(&op.what)) return copy(*work, lane);
  if (const auto* work = std::get_if<Compute>(&op.what)) return compute(*work, lane);
  if (!communicator_of(op).valid()) return {};
  TESSERA_TRY(prepare_collective(op, lane));
  return collective(op, lane);
}

// Work on one stream is ordered by the stream, so only events of other streams need a wait.
Status CudaBackend::order(Lane& lane, const Op& op) {
  for (EventId event : op.after) {
    Lane* const owner = owners_.of(event);
    if (owner != nullptr && owner != &lane) TESSERA_TRY(lane.wait(*owner, event));
  }
  const auto* wait = std::get_if<Wait>(&op.what);
  if (wait == nullptr || !wait->stream.valid() || wait->stream == op.stream) return {};
  Lane& other = *lanes_[wait->stream.index()];
  return lane.wait(other, other.youngest());
}

// Waits for the device. Progress is any op that has ended on any stream, or a file's: a long step
// does not reach the deadline, a hang does. Meanwhile files, communicators and the trace are
// served, for the awaited work may depend on them.
Status CudaBackend::until(const std::function<Result<bool>()>& done) {
  std::int64_t before = 0;
  return patience_.until(
      [&]() -> Result<Patience::Seen> {
        TESSERA_ASSIGN(const bool copied, file_copies_.advance());
        TESSERA_ASSIGN(const bool reached, done());
        if (reached) return Patience::Seen::done;
        TESSERA_TRY(communicators_.check());
        TESSERA_TRY(advance_trace());
        std::int64_t now = 0;
        for (const auto& lane : lanes_) now += lane->finished().value;
        const bool moved = std::exchange(before, now) != now || copied;
        return moved ? Patience::Seen::progress : Patience::Seen::nothing;
      },
      [this] { return oldest_waiting(); });
}

std::string CudaBackend::oldest_waiting() {
  Accessor oldest;
  const auto look = [&oldest](Lane& lane) {
    static_cast<void>(lane.reached(lane.youngest()).ok());
    const Accessor own = lane.oldest();
    const bool older = own.event.valid() && (!oldest.event.valid() || own.event < oldest.event);
    if (older) oldest = own;
  };
  for (const auto& lane : lanes_) look(*lane);
  return oldest.event.valid() ? "the " + oldest.to_string() : std::string("a collective");
}

Status CudaBackend::drain(Lane& lane) {
  TESSERA_ASSIGN(const CudaEvent here, events_.record(lane.stream()));
  Status reached = until([&] { return has_happened(module_.cuda, here); });
  events_.give_back(here);
  TESSERA_TRY(reached);
  return mailbox_.collect();
}

Status CudaBackend::drain_all() {
  for (const auto& lane : lanes_) {
    if (lane->stream() != nullptr) TESSERA_TRY(drain(*lane));
  }
  return control_.stream() == nullptr ? Status{} : drain(control_);
}

Status CudaBackend::await_event(EventId event) {
  TESSERA_TRY(usable());
  if (trace_) trace_->host_wait(event);
  if (Lane* const owner = owners_.of(event)) {
    TESSERA_TRY(noted(until([&] { return owner->reached(event); })));
  }
  return noted(mailbox_.collect());
}

Status CudaBackend::poll() {
  if (graphs_.recording()) return {};
  TESSERA_TRY(usable());
  TESSERA_TRY(noted(peers_->ended()));
  TESSERA_TRY(noted(advance_trace()));
  TESSERA_TRY(noted(file_copies_.advance().status()));
  return noted(communicators_.check());
}

Status CudaBackend::finish() {
  TESSERA_TRY(usable());
  return noted(finish_all());
}

void CudaBackend::give_up(const Status& why) {
  const Status noted_now =
      noted(Status(why.code(), fmt::format("rank {} gave up: {}", rank_, why.message())));
  static_cast<void>(noted_now);  // the caller knows the reason
}

Status CudaBackend::finish_all() {
  TESSERA_TRY(drain_all());
  TESSERA_TRY(CheckedRuntime::finish());
  TESSERA_TRY(end_trace());
  TESSERA_TRY(windows_.close());
  TESSERA_TRY(communicators_.close());
  finished_ = true;
  return {};
}

Result<PerRank<float>> CudaBackend::read(const View& scalar) {
  TESSERA_TRY(usable());
  TESSERA_TRY(check_scalar(scalar));
  std::vector<float> all(static_cast<std::size_t>(peers_->ranks()));
  TESSERA_TRY(noted(read_all(scalar, all)));
  return PerRank<float>(std::move(all));
}

// An all_gather of one number per rank on a stream of its own, after all work of the other streams.
Status CudaBackend::read_all(const View& scalar, std::vector<float>& all) {
  const CudaApi& cuda = module_.cuda;
  for (const auto& lane : lanes_) TESSERA_TRY(control_.wait(*lane, lane->youngest()));
  const auto width = static_cast<std::size_t>(size_of(scalar.dtype).value);
  TESSERA_TRY(cuda_status(
      cuda,
      cuda.memcpy_async(scratch_.at(Bytes{0}), bytes(scalar, 0).data(), width, control_.stream()),
      "cudaMemcpyAsync"));
  TESSERA_TRY(gather_answers(width));
  const std::span<const std::byte> answers(answers_.base(), width * all.size());
  for (std::size_t r = 0; r < all.size(); ++r) all[r] = load_number(answers, scalar.dtype, r);
  return {};
}

// Of every rank the first `width` bytes of the scratch memory.
Status CudaBackend::gather_answers(std::size_t width) {
  const CudaApi& cuda = module_.cuda;
  const CudaStream stream = control_.stream();
  std::byte* const gathered = scratch_.at(answers_at);
  const auto all = width * static_cast<std::size_t>(peers_->ranks());
  const int code = module_.nccl.all_gather(scratch_.at(Bytes{0}), gathered, width, NcclType::uint8,
                                           communicators_.world(), stream);
  TESSERA_TRY(communicators_.finish_call(communicators_.world(), code, "ncclAllGather"));
  TESSERA_TRY(cuda_status(cuda, cuda.memcpy_async(answers_.base(), gathered, all, stream),
                          "cudaMemcpyAsync"));
  TESSERA_TRY(control_.submitted({OpKind::all_gather, {}, EventId{reads_++}}, false));
  return drain(control_);
}

Result<Bytes> CudaBackend::least_of_all(Bytes own) {
  std::memcpy(answers_.base(), &own.value, sizeof own.value);
  TESSERA_TRY(cuda_status(module_.cuda,
                          module_.cuda.memcpy_async(scratch_.at(Bytes{0}), answers_.base(),
                                                    sizeof own.value, control_.stream()),
                          "cudaMemcpyAsync"));
  TESSERA_TRY(gather_answers(sizeof own.value));
  for (Rank r = 0; r < peers_->ranks(); ++r) {
    Bytes there;
    std::memcpy(&there.value, answers_.base() + number_slot.value * r, sizeof there.value);
    own = std::min(own, there);
  }
  return own;
}

Result<std::unique_ptr<ProcessRuntime>> make_cuda_runtime(const CudaModule& module,
                                                          std::unique_ptr<CudaPeers> peers,
                                                          const CudaOptions& options) {
  auto backend = std::make_unique<CudaBackend>(module, std::move(peers), options);
  TESSERA_TRY(backend->setup());
  return std::unique_ptr<ProcessRuntime>(std::move(backend));
}

}  // namespace tessera
