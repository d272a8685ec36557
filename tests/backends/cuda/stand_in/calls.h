// SPDX-License-Identifier: Apache-2.0
// The functions that can be made to fail or to do nothing.
#pragma once

#include <cstdint>

namespace tessera::test {

enum class Call {
  get_device_count,
  set_device,
  mem_get_info,
  mem_get_granularity,
  mem_address_reserve,
  mem_address_free,
  mem_create,
  mem_map,
  mem_set_access,
  mem_unmap,
  mem_release,
  host_alloc,
  free_host,
  stream_create,
  stream_destroy,
  stream_wait_event,
  stream_wait_value,
  stream_write_value,
  event_create,
  event_create_timed,
  event_destroy,
  event_record,
  event_query,
  event_elapsed_time,
  stream_begin_capture,
  stream_end_capture,
  graph_instantiate,
  graph_destroy,
  graph_launch,
  graph_exec_destroy,
  memcpy_async,
  memcpy_2d_async,
  memset_async,
  cast_blocks,
  block_sums,
  kernel,  // any other of the project's own
  cufile_handle_register,
  cufile_handle_deregister,
  cufile_buffer_register,
  cufile_buffer_deregister,
  cufile_read,
  cufile_write,
  get_unique_id,
  comm_init_rank,
  comm_split,
  comm_get_async_error,
  comm_finalize,
  comm_destroy,
  comm_abort,
  comm_window_register,
  comm_window_deregister,
  group_start,
  group_end,
  all_gather,
  reduce_scatter,
  all_reduce,
  reduce,
  broadcast,
  send,
  recv,
  red_op_create_pre_mul_sum,
  red_op_destroy
};
inline constexpr int call_count = static_cast<int>(Call::red_op_destroy) + 1;

/// The `use`-th call of a rank, from 1; or every one.
struct PlantedFault {
  static constexpr int every_rank = -1;
  static constexpr int every_use = 0;
  Call call = Call::event_record;
  int rank = 0;
  int use = 1;
  int code = 999;         // what it returns
  bool dropped = false;   // instead: it says that all is well and does nothing
  bool late = false;      // of NCCL: the call is taken, and then its communicator fails
  bool stays = false;     // as after a fault of a kernel: from then on every call fails
  std::int64_t slow = 0;  // ns: instead: the call takes so long, and then does what it should
};

}  // namespace tessera::test
