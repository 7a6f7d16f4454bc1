class Verification:
    """That a producer's transactional batches wait for the transaction coordinator's answer. Opaque."""
