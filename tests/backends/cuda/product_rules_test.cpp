// SPDX-License-Identifier: Apache-2.0
// The stand-in refuses products that cuBLASLt refuses.
#include "tests/backends/cuda/stand_in/product_rules.h"

#include "tests/backends/cuda/cuda_ranks.h"

namespace tessera {
namespace {

using test::StandIn;

struct alignas(256) ProductMemory {
  std::array<std::byte, 4096> bytes{};

  std::byte* at(std::size_t i) { return bytes.data() + i; }
};

struct Product {
  kernels::MatmulShape shape;
  device::ProductOperands operands;
};

struct Broken {
  const char* rule;
  std::function<void(Product&, ProductMemory&)> plant;
};

Product whole(ProductMemory& memory) {
  return {{.m = 8, .n = 8, .k = 8, .input = DType::bfloat16, .output = DType::bfloat16},
          {memory.at(0),
           memory.at(256),
           memory.at(512),
           {memory.at(768), DType::bfloat16},
           memory.at(1024)}};
}

const std::vector<Broken>& plain_rules() {
  static const std::vector<Broken> all = {
      {"a size is 0", [](Product& p, ProductMemory&) { p.shape.k = 0; }},
      {"B is null", [](Product& p, ProductMemory&) { p.operands.b = nullptr; }},
      {"A is not aligned to its numbers",
       [](Product& p, ProductMemory& m) { p.operands.a = m.at(1); }},
      {"the rows of C overlap", [](Product& p, ProductMemory&) { p.shape.c_stride = 7; }},
      {"A overlaps C", [](Product& p, ProductMemory& m) { p.operands.a = m.at(520); }},
      {"B overlaps C", [](Product& p, ProductMemory& m) { p.operands.b = m.at(636); }},
      {"the workspace is not aligned",
       [](Product& p, ProductMemory& m) { p.operands.scratch = m.at(1040); }}};
  return all;
}

const std::vector<Broken>& bias_rules() {
  static const std::vector<Broken> all = {
      {"the bias is null", [](Product& p, ProductMemory&) { p.operands.bias.data = nullptr; }},
      {"the bias has another type than C",
       [](Product& p, ProductMemory&) { p.operands.bias.dtype = DType::float32; }},
      {"the bias is not aligned",
       [](Product& p, ProductMemory& m) { p.operands.bias.data = m.at(776); }}};
  return all;
}

TEST_CASE("each rule of products is known, and only where it is broken", "[cuda]") {
  ProductMemory memory;
  Product good = whole(memory);
  good.shape.bias = true;
  CHECK(test::broken_rule(good.shape, good.operands).empty());
  for (const auto* rules : {&plain_rules(), &bias_rules()}) {
    for (const Broken& broken : *rules) {
      Product bad = good;
      broken.plant(bad, memory);
      CHECK(test::broken_rule(bad.shape, bad.operands) == broken.rule);
    }
  }
}

TEST_CASE("products in fp8 have rules of their own", "[cuda][fp8]") {
  struct alignas(256) Memory {
    std::array<std::byte, 32 << 10> bytes{};
    std::byte* at(std::size_t i) { return bytes.data() + i; }
    float* scale(std::size_t i) { return reinterpret_cast<float*>(at(i)); }
  };
  auto memory = std::make_unique<Memory>();
  const Product good{{.m = 32,
                      .n = 16,
                      .k = 100,
                      .input = DType::bfloat16,
                      .output = DType::bfloat16,
                      .bias = true,
                      .fp8 = kernels::Fp8::weight},
                     {memory->at(0),
                      memory->at(4096),
                      memory->at(8192),
                      {memory->at(16384), DType::bfloat16},
                      memory->at(20480),
                      memory->scale(24576),
                      memory->scale(28672)}};
  CHECK(test::broken_rule(good.shape, good.operands).empty());
  const auto broken = [&](const std::function<void(Product&)>& plant) {
    Product bad = good;
    plant(bad);
    return test::broken_rule(bad.shape, bad.operands);
  };
  CHECK(broken([](Product& p) { p.shape.m = 24; }) == "a size is no multiple of 16");
  CHECK(broken([&](Product& p) { p.operands.a = memory->at(8); }) == "codes are not aligned");
  CHECK(broken([&](Product& p) { p.operands.c = memory->at(8194); }) ==
        "the rows of C are not aligned");
  CHECK(broken([](Product& p) { p.shape.c_stride = 20; }) == "the rows of C are not aligned");
  CHECK(broken([](Product& p) { p.operands.b_scales = nullptr; }) == "scales are null");
  CHECK(broken([&](Product& p) { p.operands.a_scales = memory->scale(24580); }) ==
        "scales are not aligned");
  CHECK(broken([&](Product& p) { p.operands.c = memory->at(4096 + 1024); }) == "B overlaps C");
  CHECK(broken([](Product& p) {
          p.shape.output = DType::float32;
          p.operands.bias.dtype = DType::float32;
        }) == "the bias of halves is float32");
}

TEST_CASE("a product that cuBLASLt refuses fails on the stand-in, and is reported", "[cuda]") {
  ProductMemory memory;
  for (const Broken& broken : plain_rules()) {
    Product bad = whole(memory);
    broken.plant(bad, memory);
    StandIn world({.seed = 1});
    world.run([&](std::unique_ptr<CudaPeers>) -> Status {
      const CudaModule module = StandIn::module();
      const auto math = module.make_math({});
      math->use(nullptr);
      const device::ProductOperands& o = bad.operands;
      math->product(bad.shape, o.a, o.b, o.c, o.bias, o.scratch);
      CHECK(math->failure().code == 1);
      return {};
    });
    REQUIRE(world.reports().size() == 1);
    CHECK(world.reports()[0] == std::string("rank 0: a product of which ") + broken.rule);
  }
}

}  // namespace
}  // namespace tessera
