"""cuBLASLt and cuDNN, called from compiled modules by way of a shim in C++ (native/)."""
