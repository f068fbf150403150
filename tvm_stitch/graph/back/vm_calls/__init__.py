"""What the virtual machine is asked to call: fewer builtins, host functions in their place."""
