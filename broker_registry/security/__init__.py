"""The clients of an instance: their logins, and their rights by the ACLs of the cluster."""
