"""Result documents as one HTML page that needs no network: `page.write_report`."""
