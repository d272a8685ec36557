// SPDX-License-Identifier: Apache-2.0
// The stand-in's functions of the CUDA runtime and driver.
#include <cstring>

#include "tests/backends/cuda/stand_in/tables.h"

namespace tessera::test {
namespace {

constexpr int invalid_value = 1;
constexpr int invalid_handle = 400;

template <class Handle>
FakeGraph* graph_of(Handle graph) {
  return reinterpret_cast<FakeGraph*>(graph);
}
FakeEvent* event_of(CudaEvent event) { return reinterpret_cast<FakeEvent*>(event); }

int code_of(bool done) { return done ? cuda_success : invalid_value; }

int driver_get_version(int* version) {
  *version = StandIn::current().options().driver_version;
  return 0;
}
int runtime_get_version(int* version) { return *version = 13000, 0; }

int get_device_count(int* count) {
  return called(Call::get_device_count, [&](StandIn& world) {
    *count = world.options().devices_code == 0 ? world.options().ranks : 0;
    return world.options().devices_code;
  });
}
int set_device(int device) {
  return called(Call::set_device, [&](StandIn&) { return StandIn::device = device, 0; });
}
int device_get_name(char* name, int bytes, int) {
  std::strncpy(name, "stand-in", static_cast<std::size_t>(bytes));
  return 0;
}
int device_get_capability(int* capability, int) {
  *capability = StandIn::current().options().capability;
  return 0;
}
int mem_get_info(std::size_t* free, std::size_t* total) {
  return called(Call::mem_get_info, [&](StandIn& world) {
    *free = world.memory().free_bytes(StandIn::device);
    *total = world.memory().device_bytes();
    return 0;
  });
}

int mem_get_granularity(std::size_t* bytes, int) {
  return called(Call::mem_get_granularity, [&](StandIn&) { return *bytes = fake_page_bytes, 0; });
}
int mem_address_reserve(void** base, std::size_t bytes) {
  return called(Call::mem_address_reserve,
                [&](StandIn& world) { return code_of(world.memory().reserve(base, bytes)); });
}
int mem_address_free(void* base, std::size_t) {
  return called(Call::mem_address_free,
                [&](StandIn& world) { return code_of(world.memory().unreserve(base)); });
}
int mem_create(CudaMemory* memory, std::size_t bytes, int device) {
  return called(Call::mem_create, [&](StandIn& world) {
    return world.memory().create(memory, bytes, device) ? cuda_success : cuda_out_of_memory;
  });
}
int mem_map(void* at, std::size_t bytes, CudaMemory memory) {
  return called(Call::mem_map,
                [&](StandIn& world) { return code_of(world.memory().map(at, bytes, memory)); });
}
int mem_set_access(void* at, std::size_t bytes, int device) {
  return called(Call::mem_set_access, [&](StandIn& world) {
    const int code = world.stand_still("giving access to memory");
    return code != 0 ? code : code_of(world.memory().give_access(at, bytes, device));
  });
}
int mem_unmap(void* at, std::size_t bytes) {
  return called(Call::mem_unmap, [&](StandIn& world) {
    world.forget(at, bytes, StandIn::device);
    if (world.nccl().in_window(at, bytes, StandIn::device)) world.report("a window is unmapped");
    return code_of(world.memory().unmap(at, bytes));
  });
}
int mem_release(CudaMemory memory) {
  return called(Call::mem_release,
                [&](StandIn& world) { return code_of(world.memory().release(memory)); });
}
int host_alloc(void** base, std::size_t bytes) {
  return called(Call::host_alloc, [&](StandIn& world) {
    const int code = world.stand_still("pinning memory");
    return code != 0 ? code : code_of(world.memory().pin(base, bytes));
  });
}
int free_host(void* base) {
  return called(Call::free_host, [&](StandIn& world) {
    if (const int code = world.stand_still("freeing pinned memory"); code != 0) return code;
    const std::size_t bytes = world.memory().unpin(base);
    world.forget(base, bytes, StandIn::device);
    return code_of(bytes > 0);
  });
}

int stream_create(CudaStream* stream, int) {
  return called(Call::stream_create, [&](StandIn& world) {
    *stream = reinterpret_cast<CudaStream>(world.streams().create(StandIn::device));
    return 0;
  });
}
int stream_destroy(CudaStream stream) {
  return called(Call::stream_destroy, [&](StandIn& world) {
    return world.streams().destroy(stream_of(stream)) ? cuda_success : invalid_handle;
  });
}
int stream_wait_event(CudaStream stream, CudaEvent event) {
  return called(Call::stream_wait_event, [&](StandIn& world) {
    const auto known = world.streams().event(event_of(event));
    if (!known) return invalid_handle;
    const int code = world.admit(stream_of(stream));
    if (code == 0) world.streams().wait(*stream_of(stream), known);
    return code;
  });
}
int stream_wait_value(CudaStream stream, const std::uint32_t* word, std::uint32_t value) {
  return called(Call::stream_wait_value, [&](StandIn& world) {
    if (!world.memory().accessible(word, sizeof(*word), StandIn::device)) return invalid_value;
    const int code = world.admit(stream_of(stream));
    if (code == 0) world.streams().wait(*stream_of(stream), word, value);
    return code;
  });
}
int stream_write_value(CudaStream stream, std::uint32_t* word, std::uint32_t value) {
  return called(Call::stream_write_value, [&](StandIn& world) {
    if (!world.memory().accessible(word, sizeof(*word), StandIn::device)) return invalid_value;
    const int code = world.admit(stream_of(stream));
    if (code == 0) world.streams().write(*stream_of(stream), word, value);
    return code;
  });
}
int event_create(CudaEvent* event) {
  return called(Call::event_create, [&](StandIn& world) {
    *event = reinterpret_cast<CudaEvent>(world.streams().create_event(StandIn::device).get());
    return 0;
  });
}
int event_create_timed(CudaEvent* event) {
  return called(Call::event_create_timed, [&](StandIn& world) {
    const auto made = world.streams().create_event(StandIn::device);
    made->timed = true;
    *event = reinterpret_cast<CudaEvent>(made.get());
    return 0;
  });
}
int event_destroy(CudaEvent event) {
  return called(Call::event_destroy, [&](StandIn& world) {
    return world.streams().destroy_event(event_of(event)) ? cuda_success : invalid_handle;
  });
}
int event_record(CudaEvent event, CudaStream stream) {
  return called(Call::event_record, [&](StandIn& world) {
    const auto known = world.streams().event(event_of(event));
    if (!known) return invalid_handle;
    const int code = world.admit(stream_of(stream));
    if (code != 0) return code;
    world.streams().record(*stream_of(stream), known);
    world.count_record(known->timed);
    return 0;
  });
}
int event_query(CudaEvent event) {
  return called(Call::event_query, [&](StandIn& world) {
    const auto known = world.streams().event(event_of(event));
    if (!known) return invalid_handle;
    world.progress(2);
    if (known->reached < known->recorded) return cuda_not_ready;
    world.streams().see(*known);
    return cuda_success;
  });
}

// As the real one: only of events with timing that have happened, in few digits.
int event_elapsed_time(float* milliseconds, CudaEvent from, CudaEvent to) {
  return called(Call::event_elapsed_time, [&](StandIn& world) {
    const auto first = world.streams().event(event_of(from));
    const auto second = world.streams().event(event_of(to));
    if (!first || !second || !first->timed || !second->timed) return invalid_handle;
    if (first->reached < first->recorded || second->reached < second->recorded) {
      return cuda_not_ready;
    }
    *milliseconds = static_cast<float>(second->time - first->time) * 1e-6F;
    return cuda_success;
  });
}

int stream_begin_capture(CudaStream stream) {
  return called(Call::stream_begin_capture, [&](StandIn& world) {
    if (!world.streams().knows(stream_of(stream))) return invalid_handle;
    stream_of(stream)->recording = std::make_shared<FakeGraph>();
    world.recording(stream_of(stream));
    return 0;
  });
}
int stream_end_capture(CudaStream stream, CudaGraph* graph) {
  FakeStream* const recorded = StandIn::current().recording();
  StandIn::current().recording(nullptr);  // whatever happens
  return called(Call::stream_end_capture, [&](StandIn& world) {
    if (recorded == nullptr || recorded != stream_of(stream)) return invalid_handle;
    *graph = reinterpret_cast<CudaGraph>(world.streams().keep(std::move(recorded->recording)));
    return 0;
  });
}
int graph_instantiate(CudaGraphExec* made, CudaGraph graph) {
  return called(Call::graph_instantiate, [&](StandIn& world) {
    const auto known = world.streams().graph(graph_of(graph));
    if (!known) return invalid_handle;
    *made =
        reinterpret_cast<CudaGraphExec>(world.streams().keep(std::make_shared<FakeGraph>(*known)));
    return 0;
  });
}
int graph_destroy(CudaGraph graph) {
  return called(Call::graph_destroy, [&](StandIn& world) {
    return world.streams().destroy_graph(graph_of(graph)) ? cuda_success : invalid_handle;
  });
}
int graph_launch(CudaGraphExec graph, CudaStream stream) {
  return called(Call::graph_launch, [&](StandIn& world) {
    const auto known = world.streams().graph(graph_of(graph));
    if (!known) return invalid_handle;
    for (const FakeGraph::Node& node : known->nodes) {
      const int code = world.enqueue(stream_of(stream), node.accesses, node.name, node.run);
      if (code != 0) return code;
    }
    return 0;
  });
}
int graph_exec_destroy(CudaGraphExec graph) {
  return called(Call::graph_exec_destroy, [&](StandIn& world) {
    return world.streams().destroy_graph(graph_of(graph)) ? cuda_success : invalid_handle;
  });
}

int memcpy_async(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  return called(Call::memcpy_async, [&](StandIn& world) {
    return world.enqueue(stream_of(stream), {{from, bytes, false}, {to, bytes, true}}, "a copy",
                         [=] { std::memmove(to, from, bytes); });
  });
}
int memcpy_2d_async(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                    std::size_t width, std::size_t height, CudaStream stream) {
  return called(Call::memcpy_2d_async, [&](StandIn& world) {
    if (width > to_pitch || width > from_pitch) return 12;  // cudaErrorInvalidPitchValue
    std::vector<MemoryAccess> accesses;
    auto* const target = static_cast<std::byte*>(to);
    const auto* const source = static_cast<const std::byte*>(from);
    for (std::size_t row = 0; row < height; ++row) {
      accesses.push_back({source + row * from_pitch, width, false});
      accesses.push_back({target + row * to_pitch, width, true});
    }
    return world.enqueue(stream_of(stream), accesses, "a copy of rows", [=] {
      for (std::size_t row = 0; row < height; ++row) {
        std::memcpy(target + row * to_pitch, source + row * from_pitch, width);
      }
    });
  });
}
int memset_async(void* to, int value, std::size_t bytes, CudaStream stream) {
  return called(Call::memset_async, [&](StandIn& world) {
    return world.enqueue(stream_of(stream), {{to, bytes, true}}, "a fill",
                         [=] { std::memset(to, value, bytes); });
  });
}

const char* get_error_string(int code) {
  return code == cuda_out_of_memory ? "out of memory" : "an error of the stand-in";
}

}  // namespace

CudaApi cuda_table() {
  return {driver_get_version,
          runtime_get_version,
          get_device_count,
          set_device,
          device_get_name,
          device_get_capability,
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
          get_error_string};
}

CudaModule StandIn::module() {
  return {cuda_module_version,
          cuda_table(),
          nccl_table(current().options().nccl_version),
          kernel_table(),
          make_twin_math,
          [] { return current().options().cublas_version; },
          find_fake_cufile,
          start_fake_cufile,
          [](const KernelLoads& asked) { before_loads = asked; },
          current().options().loads_lazily};
}

}  // namespace tessera::test
