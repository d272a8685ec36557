// SPDX-License-Identifier: Apache-2.0
// Every function, at every use of it, fails once: the run ends with a sentence on all ranks,
// nothing hangs and nothing is left behind.
#include <algorithm>
#include <set>

#include "tests/backends/cuda/every_call.h"

namespace tessera {
namespace {

using test::Call;
using test::PlantedFault;
using test::StandIn;

// What only clears up: its failure has nobody to be told to, and what it was to clear stays.
const std::set<Call> clearing = {Call::mem_address_free,
                                 Call::mem_unmap,
                                 Call::mem_release,
                                 Call::free_host,
                                 Call::stream_destroy,
                                 Call::event_destroy,
                                 Call::comm_abort,
                                 Call::graph_destroy,
                                 Call::graph_exec_destroy,
                                 Call::cufile_handle_deregister,
                                 Call::cufile_buffer_deregister};

TEST_CASE("a program that calls everything gives the right numbers", "[cuda]") {
  const std::uint64_t seed = GENERATE(0, 1, 2, 3);
  INFO("seed " << seed);
  StandIn world({.ranks = 2, .seed = seed});
  test::RecordedTrace trace;
  test::require_clean({test::run_on(world, test::every_call, test::every_call_options(trace)),
                       world.reports(), world.leaks()});
  for (int call = 0; call < test::call_count; ++call) {
    INFO("call " << call);
    CHECK((world.uses(static_cast<Call>(call), 0) > 0 ||
           static_cast<Call>(call) == Call::comm_abort));
  }
}

// Whether the fault was reached.
bool fails_in_order(const PlantedFault& fault) {
  StandIn world({.ranks = 2, .seed = 7, .fault = fault});
  test::RecordedTrace trace;
  const auto statuses = test::run_on(world, test::every_call, test::every_call_options(trace));
  if (world.uses(fault.call, fault.rank) < fault.use) return false;
  INFO("call " << static_cast<int>(fault.call) << ", use " << fault.use);
  CHECK(world.reports().empty());
  if (clearing.contains(fault.call)) return true;
  if (fault.call == Call::cufile_buffer_register) {  // only makes reading faster
    CHECK(statuses[0].ok());
    return true;
  }
  const Status& failed = statuses[static_cast<std::size_t>(fault.rank)];
  CHECK_FALSE(failed.ok());
  INFO(failed.message());
  CHECK((failed.message().find("failed: code 999") != std::string::npos ||
         failed.message().find("failed: Unknown error 999") != std::string::npos));  // of a file
  for (const Status& status : statuses) {
    INFO(status.message());
    CHECK((status.ok() || status.message() == failed.message()));
  }
  // A communicator that could not be destroyed may be half gone: touching it again would be worse.
  CHECK((world.leaks().empty() || fault.call == Call::comm_destroy));
  return true;
}

TEST_CASE("each function fails at each of its uses", "[cuda]") {
  for (int call = 0; call < test::call_count; ++call) {
    PlantedFault fault{.call = static_cast<Call>(call), .rank = 1};
    while (fails_in_order(fault)) fault.use += test::place_distance;
    if (fault.call == Call::get_unique_id || fault.call == Call::comm_abort) continue;
    CHECK(fault.use > 1);
  }
}

TEST_CASE("rank 0 cannot make the world's id", "[cuda]") {
  CHECK(fails_in_order({.call = Call::get_unique_id, .rank = 0}));
}

}  // namespace
}  // namespace tessera
