"""Runs on the CPU with four devices, so that partitioned programs can be tried; must come before JAX is imported."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
