// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <map>

#include "tessera/sim/simulate.h"
#include "tests/sim/vector_sink.h"

namespace tessera {

// Streams to and from drives rest for most of a step, and their clocks with them.
TEST_CASE("no buffer goes before it has come, whatever other streams have done", "[sim]") {
  const auto model = parse_model(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 14, "vocab_size": 128256,
      "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192})",
                                 "llama");
  REQUIRE(model.ok());
  sim::SimulateOptions options{.cluster = *sim::load_cluster("dgx-h100", 1), .steps = 2};
  Zero3Options scheme{.param_dtype = DType::bfloat16};
  scheme.offload_param.device = Offload::Device::nvme;
  scheme.offload_optimizer.device = Offload::Device::nvme;
  options.scheme = scheme;
  options.training.sequence_length = 2048;
  options.training.checkpointing = ActivationCheckpointing::full;
  options.recorded_ranks = {0};
  test::VectorSink sink;
  options.sink = &sink;
  REQUIRE(sim::simulate(*model, options).ok());
  std::map<std::int32_t, Bytes> held;
  for (const MemorySample& sample : sink.samples) {
    held[sample.buffer] += sample.delta;
    INFO(sink.buffers[static_cast<std::size_t>(sample.buffer)] << " at " << sample.time);
    REQUIRE(held[sample.buffer] >= Bytes{0});
  }
  CHECK(sink.samples.size() > 1000);
}

}  // namespace tessera
