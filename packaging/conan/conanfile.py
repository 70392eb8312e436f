"""The recipe of Tapehead for Conan 2. scripts/platforms/recipes.sh writes conandata.yml, with the version and the archive."""
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rm, rmdir

required_conan_version = ">=2.0"


class TapeheadConan(ConanFile):
    name = "tapehead"
    description = "Tensors, a tape, exact gradients: training small transformers on a CPU"
    license = "MIT"
    url = "https://github.com/conan-io/conan-center-index"
    homepage = "@HOMEPAGE@"
    topics = ("autograd", "tensor", "transformer", "machine-learning")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "models": [True, False], "openmp": [True, False]}
    default_options = {"shared": False, "fPIC": True, "models": True, "openmp": False}
    languages = "C"

    def set_version(self):
        self.version = self.version or next(iter(self.conan_data["sources"]))

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")

    def layout(self):
        cmake_layout(self, src_folder="src")

    def requirements(self):
        if self.options.models:
            self.requires("jansson/2.14")
            self.requires("utf8proc/2.9.0")

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration(f"{self.ref} needs Linux on x86_64 or armv8")
        oldest = {"gcc": 11, "clang": 13}.get(str(self.settings.compiler))
        if oldest is None or int(str(self.settings.compiler.version).split(".")[0]) < oldest:
            raise ConanInvalidConfiguration(f"{self.ref} needs gcc 11 or clang 13, or a later one")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["TAPEHEAD_TESTS"] = False
        toolchain.cache_variables["TAPEHEAD_EXAMPLES"] = False
        toolchain.cache_variables["TAPEHEAD_MODELS"] = bool(self.options.models)
        toolchain.cache_variables["TAPEHEAD_COMPRESSION"] = False  # zlib and libzstd are not requirements
        toolchain.cache_variables["TAPEHEAD_OPENMP"] = bool(self.options.openmp)
        if self.options.models:
            for name in ("jansson", "utf8proc"):
                info = self.dependencies[name].cpp_info.aggregated_components()
                toolchain.cache_variables[f"TAPEHEAD_{name}_INCLUDE"] = info.includedirs[0]
                toolchain.cache_variables["CMAKE_LIBRARY_PATH"] = ";".join(
                    [toolchain.cache_variables.get("CMAKE_LIBRARY_PATH", ""), info.libdirs[0]]).strip(";")
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        cmake = CMake(self)
        cmake.install(component="runtime")
        cmake.install(component="devel")
        for folder in ("cmake", "pkgconfig"):  # Conan makes its own
            rmdir(self, os.path.join(self.package_folder, "lib", folder))
        rm(self, "*.a" if self.options.shared else "*.so*", os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.components["core"].libs = ["tapehead"]
        self.cpp_info.components["core"].set_property("cmake_target_name", "tapehead::tapehead")
        self.cpp_info.components["core"].set_property("pkg_config_name", "tapehead")
        self.cpp_info.components["core"].system_libs = ["pthread", "dl", "m"]
        if self.options.openmp and not self.options.shared:
            self.cpp_info.components["core"].exelinkflags = ["-fopenmp"]
            self.cpp_info.components["core"].sharedlinkflags = ["-fopenmp"]
        if self.options.models:
            self.cpp_info.components["models"].libs = ["tapehead_models"]
            self.cpp_info.components["models"].set_property("cmake_target_name", "tapehead::models")
            self.cpp_info.components["models"].set_property("pkg_config_name", "tapehead_models")
            self.cpp_info.components["models"].requires = ["core", "jansson::jansson", "utf8proc::utf8proc"]
